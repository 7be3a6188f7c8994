"""Align a text: settings, reading, fitting or loading an aligner, linking, writing."""
