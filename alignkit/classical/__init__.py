"""Aligners by counting and EM: co-occurrence and the IBM models."""
