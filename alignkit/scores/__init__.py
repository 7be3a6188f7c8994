"""Score matrices, and the merging of subword scores into word scores."""
