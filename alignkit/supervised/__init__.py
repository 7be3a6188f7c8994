"""Aligners that learned from gold links which words of a phrase to link."""
