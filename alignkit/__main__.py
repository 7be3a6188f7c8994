"""``python -m alignkit``: the same program as ``alignkit``."""

from alignkit_cli.main import main

main()
