"""Ensembles of small networks of one shape, trained at once."""
