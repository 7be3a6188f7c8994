"""The Aligner protocol, the registry of loaders, links of any text."""
