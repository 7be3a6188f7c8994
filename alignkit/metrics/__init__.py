"""What is computed from scores and links: agreement, rank correlation, alignment error rate."""
