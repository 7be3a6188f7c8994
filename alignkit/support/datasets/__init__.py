"""Public data sets: where they are, and downloading them."""
