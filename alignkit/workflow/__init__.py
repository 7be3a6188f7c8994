"""Align a text in one call: read it, fit or load an aligner, link its words."""
