"""Scores, translations and losses of trained networks."""
