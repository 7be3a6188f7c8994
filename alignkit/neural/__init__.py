"""Neural aligners: the paper's encoder-decoder with dot or uniform attention, and its bag-of-words proxy.

Importing this package loads no torch; its modules do, except :mod:`alignkit.neural.settings`.
"""
