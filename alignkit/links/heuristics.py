"""The registry of symmetrization heuristics. Imports nothing heavy."""

PRODUCT = "product"
PRODUCT_THRESHOLD = 0.2
_NAMES = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", "product")
HEURISTICS = {name: None for name in _NAMES}
