"""Links, gold links, their formats, and symmetrization."""
