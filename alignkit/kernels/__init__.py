"""Numba functions on plain arrays, and nothing else: no validation, no allocation of results."""
