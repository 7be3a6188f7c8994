"""Networks: encoder-decoder, classifier, attention."""
