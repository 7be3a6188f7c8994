"""Files of links and of gold links."""

from __future__ import annotations

from alignkit.links.gold import parse_gold
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.links.plain_text import read_plain_links
from alignkit.text.reading import read_lines, read_utf8, split_lines
from alignkit.types import PathLike


def read_links(path: PathLike) -> Links:
    """Read the links of an alignment, sure and possible ones alike: zero-based ``s-t``, a line per sentence pair.

    Probabilities (``0-1:0.93``) are ignored. The file may be compressed.

    Raises:
        InputError: it cannot be read, or an item is not a link, with its line.
    """
    data = read_utf8(path)
    links = read_plain_links(data)
    return links if links is not None else parse_links(path, split_lines(data)).possible


def read_gold(path: PathLike, *, file_format: str = "auto", base: str = "auto") -> GoldLinks:
    """Read gold links, sure and possible.

    Args:
        path: a file, which may be compressed.
        file_format: ``pharaoh``, a line ``s-t spt`` per sentence pair; ``naacl``, a line per link; auto decides by
            the first line.
        base: the number of the first token, ``0`` or ``1``; auto is 1 where index 0 never occurs
            (:func:`alignkit.links.gold.find_base`).

    Raises:
        InputError: it cannot be read, or a line is not one of links.
        AlignkitError: unknown format or base.
    """
    return parse_gold(path, read_lines(path), file_format=file_format, base=base).gold
