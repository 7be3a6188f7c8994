"""Attention of other people's models: files of heads ranked, Hugging Face models read, encoders looked into."""
