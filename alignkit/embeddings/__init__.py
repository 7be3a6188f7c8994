"""Embeddings of words as evidence for links: from a pretrained encoder, or from a file of word vectors."""
