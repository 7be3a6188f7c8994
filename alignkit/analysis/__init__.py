"""Analyses of aligners from the papers: comparison, the lab, time courses, classification; diagnosis of links."""
