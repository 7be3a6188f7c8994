"""Phrase pairs that are consistent with links: phrase tables, and bilingual terms."""
