"""Aligners by counting and EM: co-occurrence, IBM Model 1, the diagonal model, hidden Markov models."""
