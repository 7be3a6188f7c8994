"""Agreement row by row: by the frequency of a source word, by sentence length; and where attention's mass goes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.metrics.agreement import RESAMPLES, count_agreement, top_share
from alignkit.metrics.bootstrap import CONFIDENCE
from alignkit.report.model import Report
from alignkit.scores.scores import Scores
from alignkit.text.subword_marks import plain
from alignkit.text.tokenization import BOS, EOS, SPECIALS

if TYPE_CHECKING:
    import pandas as pd

#: upper ends of the bands of how often a source word occurs in the training text
FREQUENCIES = (0, 3, 10, 30, 100, 300, 1000, 3000)
#: upper ends of the bands of source words in a sentence
LENGTHS = (5, 10, 15, 20, 30, 50)
ENDS = "sentence ends"
CLASSES = ("sentence start", "sentence end", "punctuation", "words")
_ELEMENTS = 1 << 22  # comparisons at a time


@dataclass(frozen=True, eq=False)
class RowHits:
    """A(u, v) row by row; rows without columns are left out.

    Attributes:
        sentence: int64 (R,), the pair of each row.
        row: int64 (R,), which row of its pair.
        best: int64 (R,), u's first argmax.
        hits: bool (R,), whether v agrees.
    """

    sentence: np.ndarray
    row: np.ndarray
    best: np.ndarray
    hits: np.ndarray


def row_hits(u: Scores, v: Scores, percent: object) -> RowHits:
    """Whether v has u's best source token among its top ``percent``, for every row.

    Args:
        u, v: of the same pairs.
        percent: as in :func:`alignkit.metrics.agreement.agreement`.
    """
    share = top_share(percent)  # type: ignore[arg-type]
    parts: list[list[np.ndarray]] = [[np.empty(0, np.int64)] for _ in range(4)]
    for m, (a, b) in enumerate(zip(u, v, strict=True)):
        if a.size == 0:
            continue
        rows = np.arange(len(a))
        best = a.argmax(axis=1)
        above = (b > b[rows, best][:, None]).sum(axis=1)
        hits = above * share.denominator < share.numerator * a.shape[1]
        for part, found in zip(parts, (np.full(len(a), m), rows, best, hits), strict=True):
            part.append(found)
    sentence, row, best, hit = (np.concatenate(part) for part in parts)
    return RowHits(sentence, row, best, hit.astype(bool))


def expected_hits(v: Scores, percent: object) -> np.ndarray:
    """float64 (R,): the share of places of each row that are among its top, rows as in :func:`row_hits`."""
    share = top_share(percent)  # type: ignore[arg-type]
    found = [np.empty(0)]
    for matrix in v:
        if matrix.size == 0:
            continue
        step = max(1, _ELEMENTS // matrix.shape[1] ** 2)
        for low in range(0, len(matrix), step):
            part = matrix[low : low + step]
            above = (part[:, None, :] > part[:, :, None]).sum(axis=2)
            found.append((above * share.denominator < share.numerator * matrix.shape[1]).mean(axis=1))
    return np.concatenate(found)


def band_names(ends: tuple[int, ...]) -> list[str]:
    """Names of the bands up to and above these ends: 0, 1-3, 4-10, ..., more."""
    names, low = [], 0
    for end in ends:
        names.append(f"{low:,}" if low == end else f"{low:,}\N{EN DASH}{end:,}")
        low = end + 1
    return [*names, f"{low:,}+"]


def frequency_bands(report: Report, rows: RowHits) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by how often the text learned from has the source token that u ranks first."""
    names = band_names(FREQUENCIES)
    source = report.bitext.source
    place = source.offsets[rows.sentence] + rows.best
    band = np.searchsorted(np.array(FREQUENCIES), report.counts[source.tokens[place]], side="left")
    if report.specials:
        specials = np.array([source.vocabulary.id(SPECIALS[i]) for i in (BOS, EOS)])
        band = np.where(np.isin(source.tokens[place], specials[specials >= 0]), len(names), band)
    return band, [*names, ENDS]


def length_bands(report: Report, rows: RowHits) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by the number of source words in its sentence."""
    lengths = report.word_shapes[:, 1]
    names = band_names((*LENGTHS,))
    names[0] = names[0].replace("0", "1", 1)
    return np.searchsorted(np.array(LENGTHS), lengths[rows.sentence], side="left"), names


class Resampler:
    """Bootstrap resamples of M sentence pairs, the same for every question asked of it."""

    def __init__(self, pairs: int, seed: int, resamples: int = RESAMPLES) -> None:
        self.pairs, self.seed, self.resamples = pairs, seed, resamples

    def interval(self, hits: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float64 (B,) twice: the percentile interval of hits / rows of B bands.

        Args:
            hits, rows: float64 (M, B), sums per sentence pair.
        """
        draw = np.random.default_rng(self.seed)
        ratios = []
        for low in range(0, self.resamples, 50):
            size = min(50, self.resamples - low)
            weights = draw.multinomial(self.pairs, np.full(self.pairs, 1 / self.pairs), size).astype(np.float64)
            below = weights @ rows
            ratios.append(np.divide(weights @ hits, below, out=np.full(below.shape, np.nan), where=below > 0))
        tail = 50 * (1 - CONFIDENCE)
        low_end, high_end = np.nanpercentile(np.concatenate(ratios), [tail, 100 - tail], axis=0)
        return low_end, high_end


def banded(
    rows: RowHits, expected: np.ndarray, bands: tuple[np.ndarray, list[str]], resampler: Resampler
) -> list[dict[str, object]]:
    """One record per band that has rows: band, rows, agreement, chance, low, high."""
    band, names = bands
    used = np.flatnonzero(np.bincount(band, minlength=len(names)))
    column = np.searchsorted(used, band)
    flat = rows.sentence * len(used) + column
    size = resampler.pairs * len(used)
    tables = [np.bincount(flat, weights, size).reshape(-1, len(used)) for weights in (rows.hits, None, expected)]
    hits, count, chance = (table.astype(np.float64) for table in tables)
    low, high = resampler.interval(hits, count) if len(used) else (np.empty(0), np.empty(0))
    return [
        {
            "band": names[used[i]],
            "rows": int(count[:, i].sum()),
            "agreement": float(hits[:, i].sum() / count[:, i].sum()),
            "chance": float(chance[:, i].sum() / count[:, i].sum()),
            "low": float(low[i]),
            "high": float(high[i]),
        }
        for i in range(len(used))
    ]


def is_punctuation(token: str) -> bool:
    """Whether all letters of a token, its mark of a piece apart, are punctuation or symbols."""
    text = plain(token)
    return text != "" and all(unicodedata.category(letter)[0] in "PS" for letter in text)


def token_classes(report: Report) -> np.ndarray:
    """int64 (N,): index in ``CLASSES`` of every source token."""
    source = report.bitext.source
    kinds = np.array([2 if is_punctuation(token) else 3 for token in source.vocabulary.tokens], np.int64)
    if report.specials:
        for kind, special in ((0, BOS), (1, EOS)):
            index = source.vocabulary.id(SPECIALS[special])
            if index >= 0:
                kinds[index] = kind
    return kinds[source.tokens] if len(kinds) else np.empty(0, np.int64)


def mass_table(report: Report) -> pd.DataFrame:
    """Where the mass of alpha scores goes: columns set, class, mass, even.

    Means over rows; ``mass`` is the class's share of a row's sum, of rows that sum to more than 1 (links, say)
    after division by the sum; what rows lack to 1 is the class ``no source word``. ``even`` is what scores spread
    evenly would give.
    """
    import pandas as pd

    kinds = token_classes(report)
    offsets = report.bitext.source.offsets
    records = []
    for each in report.sets:
        if each.kind != "alpha":
            continue
        mass, even, rows = np.zeros(len(CLASSES)), np.zeros(len(CLASSES)), 0
        for m, matrix in enumerate(each.scores):
            if matrix.size == 0:
                continue
            member = np.equal.outer(kinds[offsets[m] : offsets[m + 1]], np.arange(len(CLASSES))).astype(np.float64)
            shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True, dtype=np.float64), 1)
            mass += (shares @ member).sum(axis=0)
            even += len(matrix) * member.mean(axis=0)
            rows += len(matrix)
        mass, even = mass / max(rows, 1), even / max(rows, 1)
        for kind, name in enumerate(CLASSES):
            if even[kind] > 0:
                records.append({"set": each.name, "class": name, "mass": mass[kind], "even": even[kind]})
        nowhere = 1 - mass.sum()
        if rows and nowhere > 5e-4:
            records.append({"set": each.name, "class": "no source word", "mass": nowhere, "even": 0.0})
    return pd.DataFrame(records, columns=["set", "class", "mass", "even"])


def breakdown_table(report: Report) -> pd.DataFrame:
    """Agreement by band: columns by (frequency or length), u, v, band, rows, agreement, chance, low, high."""
    import pandas as pd

    resampler = Resampler(len(report.bitext), report.seed)
    chances = {each.name: expected_hits(each.scores, report.percent) for each in report.sets}
    records = []
    for u in report.sets:
        for v in report.sets:
            if u is v:
                continue
            rows = row_hits(u.scores, v.scores, report.percent)
            for name, bands in (
                ("frequency", frequency_bands(report, rows)),
                ("length", length_bands(report, rows)),
            ):
                found = banded(rows, chances[v.name], bands, resampler)
                records += [{"by": name, "u": u.name, "v": v.name, **record} for record in found]
    columns = ["by", "u", "v", "band", "rows", "agreement", "chance", "low", "high"]
    return pd.DataFrame(records, columns=columns)


def hit_counts(report: Report, u: str, v: str) -> np.ndarray:
    """float64 (M, 2): rows that agree, and rows, of every pair."""
    counts = count_agreement(report.find(u).scores, report.find(v).scores, report.percent)
    return np.stack([counts.hits, counts.rows], axis=1)
