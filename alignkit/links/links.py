"""Links between the tokens of sentence pairs, gold links, and the Pharaoh format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import index
from typing import Any, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, InputError, abbreviated, check_list, check_type, counted, of_list
from alignkit.links.coverage import Coverage
from alignkit.scores import heat_map
from alignkit.support.arrays import Ragged, equal_fields, offsets_of, places_of, rise_to
from alignkit.types import PathLike

# A probability may follow, as in 0-1:0.93, which alignkit also writes.
_LINK = re.compile(r"(\d{1,9})([-p?])(\d{1,9})(:[0-9.e+-]+)?\Z", re.ASCII)
# simalign numbers its lines: the number, a tab, the links.
_NUMBERED = re.compile(r"(\d{1,12})\t(?=\s*(?:\d+[-p?]\d|\Z))", re.ASCII)

#: What the start of a line says of its format.
_OTHER_FORMATS = {"{": "JSON", "[": "JSON", "# Sentence pair": "GIZA++'s format"}

_LONGEST = 1 << 18  # sentences with more tokens are not sorted by counting


@dataclass(frozen=True, eq=False)
class Links(Ragged):
    """Zero-based links of M sentence pairs, source index first.

    Attributes:
        pairs: int32 (K, 2), links (s, t), sorted and without repetition in each sentence pair.
        offsets: int64 (M + 1,), the first link of each sentence pair.
    """

    pairs: np.ndarray
    offsets: np.ndarray
    __eq__ = equal_fields

    def __post_init__(self) -> None:
        if self.pairs.dtype != np.int32 or self.offsets.dtype != np.int64:
            raise TypeError("Links needs int32 pairs and int64 offsets")
        if self.pairs.ndim != 2 or self.pairs.shape[1] != 2 or len(self.offsets) == 0:
            raise ValueError("Links needs pairs (K, 2) and M + 1 offsets")
        if not rise_to(self.offsets, len(self.pairs)):
            raise ValueError("Links offsets must rise from 0 to the number of links")
        if self.pairs.min(initial=0) < 0:
            raise ValueError("Links cannot have negative indices")
        before, after = self.pairs[:-1], self.pairs[1:]
        same_source = before[:, 0] == after[:, 0]
        rises = np.where(same_source, before[:, 1] < after[:, 1], before[:, 0] < after[:, 0])
        # The first link of a sentence pair may be smaller than the last one of the pair before.
        starts = self.offsets[1:-1]
        rises[starts[(starts > 0) & (starts < len(self.pairs))] - 1] = True
        if not rises.all():
            raise ValueError("Links must be sorted within a sentence pair and without repetition")

    @classmethod
    def from_lists(cls, sentences: Iterable[Iterable[tuple[int, int]]]) -> Links:
        """Links of lists of (s, t), which are sorted and whose repetitions are dropped.

        >>> Links.from_lists([[(1, 1), (0, 0)], []]).to_strings()
        ['0-0 1-1', '']

        Raises:
            AlignkitError: these are no such lists.
        """
        rows: list[tuple[int, int]] = []
        offsets = [0]
        try:
            for sentence in sentences:
                rows.extend(sorted({(index(s), index(t)) for s, t in sentence}))
                offsets.append(len(rows))
            return cls(np.array(rows, np.int32).reshape(-1, 2), np.array(offsets, np.int64))
        except (TypeError, ValueError, OverflowError) as error:
            wanted = "links are pairs (s, t) of whole numbers from 0, in a list for each sentence pair"
            raise AlignkitError(f"{wanted}: {error}") from error

    @classmethod
    def from_strings(cls, lines: Iterable[str]) -> Links:
        """Links of strings such as ``"0-0 1-2"``, one per sentence pair; possible links (``1p2``) count as well.

        Raises:
            AlignkitError: an item is not a link, or ``lines`` is a single string.
        """
        if isinstance(lines, str):
            raise AlignkitError(f"give a list with a string per sentence pair, as [{lines.strip()!r}]")
        with of_list("links"):
            return parse_links("links", lines).possible

    def to_strings(self) -> list[str]:
        """One string ``"s-t s-t"`` per sentence pair; :meth:`from_strings` reads them."""
        return self.to_pharaoh().decode("ascii").split("\n")[:-1]

    @classmethod
    def concatenated(cls, parts: Sequence[Links]) -> Links:
        """The links of several blocks of sentence pairs, one after another."""
        sizes = [np.zeros(1, np.int64), *(np.diff(part.offsets) for part in parts)]
        pairs = [np.empty((0, 2), np.int32), *(part.pairs for part in parts)]
        return cls(np.concatenate(pairs), np.cumsum(np.concatenate(sizes)))

    def take(self, sentences: np.ndarray) -> Links:
        """The links of chosen sentence pairs, int (M',), in their order."""
        return Links(self.pairs[places_of(self, sentences)], offsets_of(np.diff(self.offsets)[sentences]))

    def __getitem__(self, m: int) -> np.ndarray:
        """int32 (K_m, 2): the links of pair m, a view."""
        return self.pairs[self.span(m)]

    @property
    def sentences(self) -> np.ndarray:
        """int64 (K,): the number of each link's sentence pair."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def reversed(self) -> Links:
        """The same links with source and target exchanged."""
        longest = int(self.pairs[:, 1].max(initial=-1)) + 1
        if longest > _LONGEST:  # memory and time for counting depend on the largest index
            order = np.lexsort((*self.pairs.T, self.sentences))
            return Links(np.ascontiguousarray(self.pairs[order, ::-1]), self.offsets)
        from alignkit.kernels.sentence_pairs import reverse_links

        pairs = np.empty_like(self.pairs)
        reverse_links(self.pairs, self.offsets, np.zeros(longest + 1, np.int32), pairs)
        return Links(pairs, self.offsets)

    def block(self, low: int, high: int) -> Links:
        """The links of pairs low <= m < high."""
        offsets = self.offsets[low : high + 1]
        return Links(self.pairs[offsets[0] : offsets[-1]], offsets - offsets[0])

    def to_pharaoh(self) -> bytes:
        """One line ``s-t s-t`` per sentence pair, an empty one for a pair without links."""
        from alignkit.kernels import text

        longest = 2 * len(str(self.pairs.max(initial=0))) + 2  # with the dash and the space
        out = np.empty(len(self) + longest * len(self.pairs), np.uint8)
        return out[: text.write_pharaoh(self.pairs, self.offsets, out)].tobytes()

    def __repr__(self) -> str:
        return f"Links({counted(len(self), 'pair')}, {counted(len(self.pairs), 'link')})"


@dataclass(frozen=True)
class GoldLinks:
    """Reference links; ``possible`` includes the sure ones."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if len(self.sure) != len(self.possible):
            raise ValueError("sure and possible links must cover the same sentence pairs")

    def take(self, sentences: np.ndarray) -> GoldLinks:
        """The links of chosen sentence pairs, int (M',), in their order."""
        return GoldLinks(self.sure.take(sentences), self.possible.take(sentences))

    def __len__(self) -> int:
        return len(self.sure)

    def __repr__(self) -> str:
        return f"GoldLinks({len(self)} pairs, {len(self.sure.pairs)} sure and {len(self.possible.pairs)} possible)"


def links_of_keys(keys: np.ndarray, widths: Sequence[int], count: int) -> Links:
    """Links of ``count`` sentence pairs from int64 keys (m * widths[0] + s) * widths[1] + t, with repetitions.

    The keys are sorted in place.
    """
    if (keys[1:] <= keys[:-1]).any():
        keys.sort()  # numpy.unique would hash them, which takes ten times as long
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    rows, target = np.divmod(keys, widths[1])
    offsets = np.searchsorted(rows, np.arange(count + 1, dtype=np.int64) * widths[0]).astype(np.int64)
    return Links(np.stack([rows % widths[0], target], axis=1).astype(np.int32), offsets)


def parse_links(path: PathLike, lines: Iterable[str]) -> GoldLinks:
    """Parse lines of links ``s-t`` (sure) and ``spt`` or ``s?t`` (possible), zero-based, source first.

    A link may end with a probability, ``s-t:0.93``, which is ignored; lines may be numbered, as simalign's are.

    Args:
        path: the file of the lines, for messages.
        lines: one per sentence pair.

    Raises:
        InputError: an item is not a link, with its line.
        AlignkitError: ``lines`` is a single string.
    """
    check_list(lines, "links must be a list with a string per sentence pair")
    lines = list(lines)
    for line in lines:
        check_type(line, str, "the links of a sentence pair must be text")
    sure: list[list[tuple[int, int]]] = []
    possible: list[list[tuple[int, int]]] = []
    for matches in _matches(path, lines):
        possible.append([(int(match[1]), int(match[3])) for match in matches])
        sure.append([link for link, match in zip(possible[-1], matches, strict=True) if match[2] == "-"])
    return GoldLinks(Links.from_lists(sure), Links.from_lists(possible))


#: Links, or what can be read as some: see :func:`as_links`.
LinksLike = Links | Iterable[Any]


def as_links(links: LinksLike) -> Links:
    """Links of a list with a string ``"0-0 1-2"``, pairs (s, t) or an :class:`AlignedPair` for each sentence pair.

    Raises:
        AlignkitError: these are no such lists.
    """
    if isinstance(links, Links):
        return links
    check_list(links, "links must be a list with a string or pairs (s, t) for each sentence pair")
    rows: list[Any] = [[link[:2] for link in row.links] if isinstance(row, AlignedPair) else row for row in links]
    is_text = any(isinstance(row, str) for row in rows)
    return Links.from_strings(rows) if is_text else Links.from_lists(rows)


def as_gold(gold: GoldLinks | LinksLike) -> GoldLinks:
    """Gold links of what :func:`as_links` takes, all of them sure but those that strings call possible."""
    if isinstance(gold, GoldLinks):
        return gold
    if isinstance(gold, list | tuple) and any(isinstance(line, str) for line in gold):
        with of_list("gold"):
            return parse_links("gold", gold)
    links = as_links(gold)
    return GoldLinks(links, links)


def _matches(path: PathLike, lines: Sequence[str]) -> Iterator[list[re.Match[str]]]:
    """The items of each line, without the number and tab that simalign begins lines with.

    Raises:
        InputError: an item is not a link; the first line has a number, and a later one has none or not the next.
    """
    first = _NUMBERED.match(lines[0]) if lines else None
    if first is not None and int(first[1]) <= 1:
        kept = []
        for number, line in enumerate(lines):
            match = _NUMBERED.match(line)
            if match is None or int(match[1]) != int(first[1]) + number:
                problem = (
                    f"lines are numbered, but this one does not begin with {int(first[1]) + number} and a tab"
                )
                raise InputError(path, problem, line=number + 1)
            kept.append(line[match.end() :])
        lines = kept
    for number, line in enumerate(lines, 1):
        matches = []
        for item in line.split():
            match = _LINK.match(item)
            if match is None:
                remedy = "links look like 0-1, 0p1 or 0?1"
                for start, name in _OTHER_FORMATS.items():
                    if line.lstrip().startswith(start):
                        remedy += f", but this looks like {name}; `alignkit align --format pharaoh` writes links"
                raise InputError(path, f"{abbreviated(item)!r} is not a link", line=number, remedy=remedy)
            matches.append(match)
        yield matches


def parse_probabilities(path: PathLike, lines: Iterable[str]) -> np.ndarray | None:
    """The probabilities of links ``s-t:0.93``, in the order of the links of :func:`parse_links`.

    Args:
        path: the file of the lines, for messages.
        lines: one per sentence pair.

    Returns:
        float64 (K,), one for each link (the first, where a link is repeated), NaN where it has none; None if no
        link has one.

    Raises:
        InputError: a probability is not a number from 0 to 1, with its line.
    """
    found: list[float] = []
    for number, matches in enumerate(_matches(path, list(lines)), 1):
        known: dict[tuple[int, int], float] = {}
        for match in matches:
            value = np.nan
            if match[4] is not None:
                with suppress(ValueError):
                    value = float(match[4][1:])
                if not 0 <= value <= 1:
                    problem = f"{abbreviated(repr(match[0]))} has no probability from 0 to 1 after its colon"
                    raise InputError(path, problem, line=number)
            known.setdefault((int(match[1]), int(match[3])), value)
        found += [known[link] for link in sorted(known)]
    values = np.array(found, np.float64)
    return None if np.isnan(values).all() else values


def check_range(path: PathLike, links: Links, shapes: np.ndarray, *, whole: bool = False) -> None:
    """Check that all links are inside their sentence pairs.

    Args:
        path: the file of the links, for messages.
        links: M pairs.
        shapes: int32 (at least M, 2), T and L of each pair.
        whole: there must not be more pairs than M.

    Raises:
        InputError: a link is outside its pair, with the line and the likely cause; or the numbers of pairs differ.
    """
    if len(shapes) < len(links) or (whole and len(shapes) > len(links)):
        raise InputError(path, f"has links for {counted(len(links), 'pair')}, the text has {len(shapes):,}")
    sentence = links.sentences
    outside = (links.pairs[:, 0] >= shapes[sentence, 1]) | (links.pairs[:, 1] >= shapes[sentence, 0])
    if not outside.any():
        return
    k = int(outside.argmax())
    (s, t), m = links.pairs[k], sentence[k]
    zero_used = (links.pairs == 0).any()
    exchanged = (links.pairs[:, 0] < shapes[sentence, 0]) & (links.pairs[:, 1] < shapes[sentence, 1])
    if not zero_used:
        cause = "the links seem to be 1-based; alignkit counts from 0"
    elif exchanged.all():
        cause = "source and target seem to be exchanged"
    else:
        cause = "are these the links of this text, with the same tokenization?"
    raise InputError(
        path,
        f"link {s}-{t} points outside a pair of {shapes[m, 1]} source and {shapes[m, 0]} target tokens",
        line=int(m) + 1,
        remedy=cause,
    )


class Link(NamedTuple):
    """A link between two words of a sentence pair, counted from 0, and its probability."""

    source: int
    target: int
    probability: float

    def __str__(self) -> str:
        return f"{self.source}-{self.target}:{self.probability:.4g}"


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair and its links.

    Attributes:
        source, target: the words.
        links: sorted by source word, then target word.
        source_spans, target_spans: of raw text, the characters [start, end) of each word in its line.
        find_coverage: what finds :attr:`coverage`.
    """

    source: Sequence[str]
    target: Sequence[str]
    links: Sequence[Link]
    source_spans: Sequence[tuple[int, int]] = ()
    target_spans: Sequence[tuple[int, int]] = ()
    find_coverage: Callable[[], Coverage] | None = field(default=None, repr=False, compare=False)

    @property
    def coverage(self) -> Coverage:
        """Which words have no counterpart.

        Raises:
            AlignkitError: the pair does not come from an aligner.
        """
        if self.find_coverage is None:
            raise AlignkitError("links alone do not tell which words have no counterpart; align the text")
        return self.find_coverage()

    @property
    def words(self) -> list[tuple[str, str]]:
        """The linked words, (source word, target word)."""
        return [(self.source[link.source], self.target[link.target]) for link in self.links]

    def __str__(self) -> str:
        """The links as ``0-0:0.98 1-1:0.95``, which :meth:`alignkit.Links.from_strings` reads."""
        return " ".join(map(str, self.links))

    def __repr__(self) -> str:
        shown = " ".join(f"{x}-{y}" for x, y in self.words)
        return f"AlignedPair({shown if len(shown) <= 100 else shown[:99] + '…'})"

    def heat_map(self) -> str:
        """An HTML table of target by source words, links shaded by their probability, which is their tooltip."""
        matrix = np.zeros((len(self.target), len(self.source)))
        for link in self.links:
            matrix[link.target, link.source] = link.probability
        return heat_map(matrix, self.source, self.target, by_row=False)

    _repr_html_ = heat_map
