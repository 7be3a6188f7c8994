"""Scores and links of other systems, and their projection onto the tokens of a bitext."""
