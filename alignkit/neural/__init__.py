"""Neural aligners: translation networks with attention, the classifier and the bag-of-words proxy.

Importing this package loads no torch; its modules do, except :mod:`alignkit.neural.settings`.
"""

import os

# With this, MKL's matrix products have the same bits with any number of threads, at no measurable cost. MKL reads
# the variable at its first product, so it has to be set before.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
