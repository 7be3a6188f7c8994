"""Experiments of the papers, one file each, and what they share."""
