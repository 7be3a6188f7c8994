"""An editable install that type checkers and editors can follow; everything else is in setup.cfg.

setuptools installs a layout with renamed folders by an import hook, which only a running Python sees. Links under
the installed names, in a folder that is put on the path, are seen by all. Where the system allows no links, the
import hook stays.
"""

import sys
from contextlib import suppress
from pathlib import Path

from setuptools import setup

options = {}
if "editable_wheel" in sys.argv:
    with suppress(OSError):
        folder = Path("build/editable")
        folder.mkdir(parents=True, exist_ok=True)
        for name, target in (("alignkit", "alignkit"), ("alignkit_cli", "cli"), ("alignkit_data", "data")):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(Path(target).resolve(), target_is_directory=True)
        options["package_dir"] = {"": str(folder)}
setup(**options)
