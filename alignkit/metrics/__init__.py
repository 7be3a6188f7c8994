"""Agreement, rank correlation, alignment error rate, and their intervals."""
