"""The report: an HTML page, plots and tidy tables."""
