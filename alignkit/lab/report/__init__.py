"""The report: an HTML page."""
