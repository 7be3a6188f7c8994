"""The Aligner protocol, the registry of loaders, two directions as one aligner, links of any text."""
