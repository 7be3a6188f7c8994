"""The interfaces of other aligners, for programs that were written for them; a leaf."""
