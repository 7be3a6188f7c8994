"""Metrics: agreement, rank correlation, alignment error rate, and their intervals."""
