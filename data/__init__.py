"""The sample bitext of alignkit: German-English everyday sentences with gold word alignments.

``train.de`` and ``train.en`` hold 940 sentence pairs, one tokenised sentence a line; ``test.de`` and
``test.en`` hold 100 more, and ``test.gold`` the gold alignment of each of those. README.md beside this file
says how they were made and what the links mean; LICENSE dedicates them to the public domain (CC0 1.0).
``test.tagged.de`` is ``test.de`` with inline tags, and ``test.pieces.de`` and ``test.pieces.en`` are the test
sentences in subwords. ``sample.de`` and ``sample.en``, the text of ``--sample``, hold all pairs, the 100 first.
``alignkit fetch sample`` copies all of them.

The directory is called ``data`` in the source tree and is installed as the import package ``alignkit_data``.
"""

from importlib.resources import files
from pathlib import Path

FILES = (
    *("train.de", "train.en", "test.de", "test.en", "test.gold"),
    *("test.tagged.de", "test.pieces.de", "test.pieces.en", "sample.de", "sample.en"),
)


def path(name: str) -> Path:
    """The path of one file of the sample, ``name`` being one of :data:`FILES`."""
    if name not in FILES:
        raise ValueError(f"no sample file {name!r}; there are {', '.join(FILES)}")
    return Path(str(files(__name__) / "sample" / name))
