"""The content of a report: the scores of several aligners on one text, labelled for readers without the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.aligner import Aligner
from alignkit.lab.interop.heads import RankedHeads
from alignkit.lab.interop.projection import word_grouping, word_shapes
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.error_classes import WordFacts
from alignkit.metrics.protocol import PERCENT, Percent
from alignkit.metrics.registry import MAIN
from alignkit.scores import Grouping, Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ScoreSet:
    """The scores of one aligner, of one kind.

    Attributes:
        name: as in tables, ``lstm.alpha``.
        label: a few words for it.
        note: a sentence that says what the numbers are.
        scores: of the report's pairs.
    """

    name: str
    label: str
    note: str
    scores: Scores

    @property
    def kind(self) -> str:
        """alpha, beta or delta."""
        return self.name.rpartition(".")[2]


def score_set(
    aligner: Aligner, kind: str, scores: Scores, *, name: str | None = None, suffix: str = ""
) -> ScoreSet:
    """A score set with its aligner's label.

    Args:
        aligner: gave the scores.
        kind: of the scores.
        scores: of the report's pairs.
        name: what the report calls the aligner, if not by its name (``seed1`` for a run).
        suffix: distinguishes it from others of the same kind.
    """
    label, note = aligner.label(kind)
    return ScoreSet(f"{name or aligner.name}.{kind}", f"{label} ({suffix})" if suffix else label, note, scores)


@dataclass(frozen=True)
class Panel:
    """A section of the page.

    Attributes:
        place: its id, which links lead to.
        title: its heading.
        link: its name in the navigation.
        html: (report, what :func:`alignkit.lab.report.page_data.page_data` gives) -> what stands below the
        heading;
            empty to leave the panel out.
    """

    place: str
    title: str
    link: str
    html: Callable[[Report, Mapping[str, Any]], str]


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a page is made of.

    Attributes:
        title: of the page.
        bitext: M pairs as the scores see them, in words or subwords, with BOS and EOS where they were scored.
        sets: at least one; all of the M pairs, with the bitext's shapes.
        tables: of :func:`alignkit.metrics.registry.compare` by every metric, of the sets' names.
        counts: int64 (V_src,): how often each source type occurs in the text that was learned from.
        time_course: columns run, step, name, value, as :func:`alignkit.lab.report.page_data.time_course_lines`
        reads
            them, or None.
        gold: reference links between words, or None.
        heads: the ranking of the heads of a model, or None.
        words: the same pairs in words, with the words' counts, for errors by class; None if not known.
        specials: whether BOS and EOS at the ends of sentences are specials rather than words.
        marked: whether tokens are subwords that may carry marks.
        facts: settings and versions, nested.
        uniform_steps: by what the time course calls a run, the number of its first steps in which attention was
            fixed to uniform; runs without such steps are left out.
        unfinished: the names of the runs whose training has not ended.
        percent: what counts as the top of a row.
        seed: of the bootstraps.
    """

    title: str
    bitext: Bitext
    sets: tuple[ScoreSet, ...]
    tables: Mapping[str, pd.DataFrame]
    counts: np.ndarray
    time_course: pd.DataFrame | None = None
    gold: GoldLinks | None = None
    heads: RankedHeads | None = None
    words: WordFacts | None = None
    specials: bool = True
    marked: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)
    percent: Percent = PERCENT
    seed: int = 0
    uniform_steps: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """That of the main metric."""
        return self.tables[MAIN.name]

    @cached_property
    def groups(self) -> tuple[Grouping, Grouping]:
        """Per sentence the word of each token, of source and target."""
        return (
            word_grouping(self.bitext.source, self.specials, self.marked),
            word_grouping(self.bitext.target, self.specials, self.marked),
        )

    @cached_property
    def word_shapes(self) -> np.ndarray:
        """int32 (M, 2): target and source words of each pair."""
        return word_shapes(self.bitext, self.specials, self.marked)

    @property
    def main_pair(self) -> tuple[str, str]:
        """(u, v) that the page begins with: attention against the IBM dictionary, or the nearest to that."""
        names = [each.name for each in self.sets]
        links = [n for n in names if n.endswith(".alpha") and not n.startswith("ibm1")]
        first = min(links, key=lambda name: name == "hmm.alpha", default=names[0])
        others = [n for n in ("ibm1.beta", "ibm1.alpha", *names) if n in names and n != first]
        return first, others[0] if others else first

    def token_links(self, links: Links) -> list[list[tuple[int, int]]]:
        """Links of words as links of tokens: every subword of one word with every subword of the other."""
        sentences: list[list[tuple[int, int]]] = []
        for m, pairs in enumerate(links):
            source, target = self.groups[0][m][0], self.groups[1][m][0]
            found = [
                (int(s), int(t))
                for i, j in pairs.tolist()
                for s in np.flatnonzero(source == i)
                for t in np.flatnonzero(target == j)
            ]
            sentences.append(sorted(found))
        return sentences


def names_of(sets: Sequence[ScoreSet]) -> dict[str, str]:
    """name -> label."""
    return {each.name: each.label for each in sets}
