"""What the papers do with aligners: comparison, experiments, explanation tests, heads, the report."""
