"""Analyses of aligners from the papers: comparison, the lab, time courses, classification."""
