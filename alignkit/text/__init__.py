"""Text: vocabularies, bitexts, reading, tokenization, streaming, texts larger than memory."""
