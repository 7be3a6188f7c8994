"""Neural aligners: the paper's encoder-decoder with general or uniform attention, and its bag-of-words proxy.

Importing this package loads no torch; its modules do, except :mod:`alignkit.neural.settings`.
"""

import os

# MKL's matrix products then have the same bits at any number of threads, at no cost in speed that we measured.
# It reads this at its first product, so it works as long as none came before.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
