"""Runs of several processes, the ranks, which ``torchrun`` starts on one machine or on many."""
