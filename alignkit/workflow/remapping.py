"""Move links in a file from one tokenization of a text to another."""

from __future__ import annotations

import logging

from alignkit.errors import AlignkitError, InputError
from alignkit.links.files import read_links
from alignkit.links.links import Links, check_range
from alignkit.links.remapping import difference, remap_through
from alignkit.text.reading import read_bitext
from alignkit.text.token_maps import token_map
from alignkit.types import PathLike
from alignkit.workflow.settings import ON_ERROR

log = logging.getLogger(__name__)

Files = tuple[PathLike, PathLike]


def remap_files(links: PathLike, old: Files, new: Files, *, on_error: str = ON_ERROR[0]) -> Links:
    """Links between the tokens of ``new``, from a file of links between the tokens of ``old``.

    Args:
        links: zero-based, a line for each of M sentence pairs; probabilities are dropped.
        old, new: source and target file of the same M pairs, tokens with spaces between them; see
            :func:`alignkit.links.remapping.remap_links`.
        on_error: ``stop`` at a sentence that has other characters in the new text than in the old one, or ``skip``
            its pair, which gets no links; a warning with the number of such pairs is logged.

    Raises:
        InputError: a file cannot be read; links and texts have different numbers of lines; a link is outside its
            sentence pair; or, unless they are skipped, a sentence has other characters.
    """
    if on_error not in ON_ERROR:
        raise AlignkitError(f"on_error must be {' or '.join(ON_ERROR)}, not {on_error!r}")
    before, after = read_bitext(*old), read_bitext(*new)
    found = read_links(links)
    for path, count in ((links, len(found)), (new[0], len(after))):
        if count != len(before):
            raise InputError(path, f"has {count} lines, {old[0]} has {len(before)}")
    check_range(links, found, before.shapes)
    maps = token_map(before.source, after.source), token_map(before.target, after.target)
    differs = maps[0].differs | maps[1].differs
    if differs.any():
        m = int(differs.argmax())
        side = 0 if maps[0].differs[m] else 1
        problem = f"has other characters than {old[side]}: {difference(maps[side], m)}"
        remedy = "give two tokenizations of the same text, or go on with --on-error skip"
        error = InputError(new[side], problem, line=m + 1, remedy=remedy)
        if on_error == "stop":
            raise error
        count = int(differs.sum())
        pairs = "1 pair differs and has no links" if count == 1 else f"{count} pairs differ and have no links"
        log.warning("%s; the first: %s, line %d", pairs, error.path, m + 1)
    return remap_through(found, *maps)
