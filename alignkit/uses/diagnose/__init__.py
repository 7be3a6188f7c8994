"""The quality of an alignment without gold links, and where it is bad."""
