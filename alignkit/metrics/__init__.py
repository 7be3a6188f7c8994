"""What is computed from scores and links: agreement and alignment error rate."""
