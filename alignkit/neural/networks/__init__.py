"""Networks: translation networks, their attentions, and the classifier."""
