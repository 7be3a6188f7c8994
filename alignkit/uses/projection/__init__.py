"""Labels, spans and inline tags of a text, projected onto its translation through links."""
