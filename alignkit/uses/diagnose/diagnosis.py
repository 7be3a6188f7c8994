"""How good an alignment is likely to be, and where it is bad, without gold links.

Joint hidden Markov models of several views of the text, its words, their first letters and subwords, are fitted on
the text alone. From how they agree with the links and with each other follow expected precision, recall and AER
(:mod:`alignkit.uses.diagnose.evidence`), in all and by class of links; checks beside it count what is suspicious
in each sentence pair (:mod:`alignkit.uses.diagnose.checks`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd

from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.embeddings.contextual import find_embeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import AlignkitError, counted
from alignkit.links.from_scores import links_above
from alignkit.links.gold import is_naacl, note_first, parse_gold
from alignkit.links.links import GoldLinks, Links, check_range, parse_probabilities
from alignkit.metrics.aer import Partition, WordFacts, class_rows, evaluate, probability_partition, text_partitions
from alignkit.pipeline.settings import ReadOptions, ReadSettings
from alignkit.support.arrays import brief_repr, places_of
from alignkit.support.settings import with_options
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import Side, read_text
from alignkit.text.reading import read_lines
from alignkit.types import PathLike, Progress
from alignkit.uses.diagnose.checks import (
    LinkedText,
    length_deviations,
    likeness_of_linked_words,
    linked_information,
    run_checks,
)
from alignkit.uses.diagnose.evidence import (
    CALIBRATION,
    Calibration,
    Evidence,
    ExpectedCounts,
    ExpectedEvaluation,
    expected_link_counts,
    vote,
)

log = logging.getLogger(__name__)

TOKEN_CLASSES = ("two numbers", "equal words", "others")
#: With less trust in the views than this, the estimate is rough.
LITTLE_TRUST = 0.5
#: Lines that a finding names.
MOST_LINES = 10


@dataclass(frozen=True, eq=False)
class LinkDiagnosis:
    """The result of :func:`diagnose_links`; all shares are fractions.

    Attributes:
        expected: measures that can be expected over all pairs.
        facts: counts of the text and the links, agreements, and how the links' own probabilities compare;
            ``aer_low`` and ``aer_high``, ``aer_with_possible_low`` and ``aer_with_possible_high``, where the true
            ones lie in nine of ten cases, but only in about half of them if the links come from evidence that
            the views lack, as embeddings.
        classes: expected measures by class of links, as of :func:`alignkit.metrics.aer.error_table`; ``gold`` is
            the expected number of gold links, of which ``missed`` are not proposed; ``wrong`` are proposed links
            that are none.
        findings: a row for each check: ``check``, ``count``, ``of`` (among how many), ``share``, and ``lines``,
            the numbers of the lines where there is most of it.
        pairs: a row for each sentence pair: expected measures, links, words without a link, and what the checks
            found.
    """

    expected: ExpectedEvaluation
    facts: dict[str, Any]
    classes: pd.DataFrame
    findings: pd.DataFrame
    pairs: pd.DataFrame

    __repr__ = brief_repr


def diagnose_links(
    source: Bitext | Side,
    target: Side | None,
    links: Links | PathLike | Iterable[str],
    *,
    settings: ReadSettings | None = None,
    embeddings: Embeddings | str | None = None,
    calibration: Calibration = CALIBRATION,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> LinkDiagnosis:
    """Estimate how good an alignment is, and find where it is bad, without gold links.

    Args:
        source, target: the text, as of :func:`alignkit.pipeline.align.align`.
        links: of the text or of its first pairs; a file, which may have probabilities, or strings ``"0-0 1-2"``.
            The rest of the text is learned from, too.
        settings: how to read the text: ``lowercase`` and ``encoding_errors``.
        embeddings: of words, as of :class:`alignkit.pipeline.settings.FitSettings`; without them, links that were
            made with them are judged too severely.
        calibration: how to read the views' agreement in a text whose words are repeated often.
        threads: all there are by default; no result depends on it.
        progress: called with (done, total, message) after each iteration of the views' models.
        **options: fields of :class:`ReadSettings`, which replace those of ``settings``.

    Raises:
        AlignkitError: a text or file is not valid, or the links are not of the text.
    """
    chosen, count = with_options(ReadSettings, settings, options), thread_count(threads)
    vectors = find_embeddings(embeddings) if isinstance(embeddings, str) else embeddings
    bitext = read_text(source, target, **vars(chosen), threads=count)
    found, probabilities = _read_links(links, bitext)
    if not (bitext.shapes[: len(found)] > 0).all(axis=1).any():
        raise AlignkitError("there is nothing to diagnose: no sentence pair with links has words on both sides")
    votes = vote(bitext, len(found), embeddings=vectors, threads=threads, progress=progress)
    if len(votes.pairs) < len(found):
        log.warning("left out %s", counted(len(found) - len(votes.pairs), "very long pair"))
        probabilities = None if probabilities is None else probabilities[places_of(found, votes.pairs)]
        found = found.take(votes.pairs)
    evidence = Evidence(votes.support, votes.unanimous)
    text = LinkedText(votes.bitext, found, evidence)
    known = WordFacts.of(votes.bitext, bitext)
    repetition = mean_log_count(known)
    calibration = calibration.of_text(repetition)
    if calibration.trust < LITTLE_TRUST:
        log.warning(
            "the words of this text are too rare for a good estimate: they occur %.1f times (geometric mean); "
            "append similar text, for which no links are needed",
            np.exp(repetition),
        )
    counts = expected_link_counts(found, evidence, calibration)
    checks, findings = run_checks(text), []
    for check in checks:
        total = int(check.counts.sum())
        share = total / check.of if check.of else float("nan")
        lines = [int(votes.pairs[line - 1]) + 1 for line in check.lines(MOST_LINES)]
        findings.append({"check": check.name, "count": total, "of": check.of, "share": share, "lines": lines})
    unlinked = [(degrees == 0) & are_words for degrees, are_words in zip(text.degrees, text.words, strict=True)]
    measures = counts.measures()
    pairs = {
        "line": votes.pairs + 1,
        "source_tokens": votes.bitext.source.lengths,
        "target_tokens": votes.bitext.target.lengths,
        "links": counts.found,
        "unlinked_words": text.tokens_per_pair(unlinked),
        **{name: measures[name] for name in ("aer", "precision", "recall")},
        "linked_information": linked_information(text),
        "length_deviation": length_deviations(votes.bitext),
        **{check.name.replace(" ", "_"): check.counts for check in checks},
    }

    # What is so of the text and of all links.
    tokens = [len(side.tokens) for side in text.sides]
    facts: dict[str, Any] = {
        "pairs": len(text.bitext),
        "blank_pairs": int((text.bitext.shapes == 0).any(axis=1).sum()),
        "source_tokens": tokens[0],
        "target_tokens": tokens[1],
        "links": len(text.links.pairs),
        "links_per_token": 2 * len(text.links.pairs) / max(sum(tokens), 1),
    }
    sides = zip(("source", "target"), text.degrees, text.words, text.evidence.unlinked, strict=True)
    for name, degrees, are_words, chances in sides:
        marks = ~are_words
        facts[f"unlinked_{name}_words"] = _mean(degrees[are_words] == 0)
        facts[f"unlinked_{name}_words_of_views"] = _mean(chances[are_words])
        facts[f"unlinked_{name}_punctuation"] = _mean(degrees[marks] == 0)
        facts[f"{name}_tokens_with_several_links"] = _mean(degrees[degrees > 0] > 1)
    expected, likely = counts.total(), links_above(votes.probabilities, JOINT_THRESHOLD)
    for name, aer in (("aer", expected.aer), ("aer_with_possible", expected.aer_with_possible)):
        facts[f"{name}_low"], facts[f"{name}_high"] = calibration.interval(aer)
    facts |= {
        "views": votes.views,
        "agreement_of_views": votes.agreement_of_views,
        "agreement_of_directions": votes.agreement_of_directions,
        "agreement_with_views": evaluate(GoldLinks(likely, likely), text.links).f1,  # NaN without links
    }
    if probabilities is not None:
        right = calibration.right(votes.support.values[text.evidence.places(text.links)])
        facts["mean_probability"] = _mean(probabilities[~np.isnan(probabilities)])
        facts["calibration_error"] = calibration_error(probabilities, right)
    classes = _class_rows(text, known, probabilities, calibration)
    return LinkDiagnosis(expected, facts, classes, pd.DataFrame(findings), pd.DataFrame(pairs))


def mean_log_count(known: WordFacts) -> float:
    """The mean over tokens of log(how often the token's word occurs in the text), and of both sides."""
    sides = zip((known.bitext.source, known.bitext.target), known.counts, strict=True)
    return float(np.mean([np.log(counts[side.tokens]).mean() for side, counts in sides]))


def _read_links(links: Links | PathLike | Iterable[str], bitext: Bitext) -> tuple[Links, np.ndarray | None]:
    """The links of the first pairs, and their probabilities if they have any.

    Raises:
        InputError: a line is not a list of links, or a link is outside its pair.
        AlignkitError: there are more lines than pairs.
    """
    path: PathLike = links if isinstance(links, str | os.PathLike) else "links"
    if isinstance(links, Links):
        found, probabilities, warning = links, None, None
    else:
        lines = read_lines(links) if isinstance(links, str | os.PathLike) else list(links)
        known = parse_gold(path, lines, shapes=bitext.shapes)
        found, warning = known.gold.possible, known.warning if known.base else None
        probabilities = None if is_naacl(lines) else parse_probabilities(path, lines)
    check_range(path, found, bitext.shapes)
    if warning:
        log.warning(warning)
    note_first(path, found, bitext.shapes)
    return found, probabilities


def calibration_error(probabilities: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """The expected calibration error (Naeini et al. 2015): mean over links of |predicted - right| of their bin.

    Args:
        probabilities: float (K,), predicted; NaN are left out.
        right: float (K,), whether each link is right, or how probably.
        bins: of equal width.
    """
    known = ~np.isnan(probabilities)
    predicted, actual = probabilities[known], right[known]
    if not len(predicted):
        return float("nan")
    place = np.minimum((predicted * bins + 1e-6).astype(np.int64), bins - 1)
    difference = np.bincount(place, predicted, bins) - np.bincount(place, actual, bins)
    return float(np.abs(difference).sum() / len(predicted))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _class_rows(
    text: LinkedText, known: WordFacts, probabilities: np.ndarray | None, calibration: Calibration
) -> pd.DataFrame:
    """Expected measures in each class of links."""
    # Links proposed, and links that may be gold, side by side: each class counts both.
    proposed = text.evidence.places(text.links)
    right = calibration.right(text.evidence.probabilities.values[proposed])
    likely, weights = text.evidence.likely_links(calibration)
    keys, count = np.concatenate([text.keys, likely]), len(proposed)
    likeness = Partition("numbers and equal words", TOKEN_CLASSES, likeness_of_linked_words(text.bitext, keys))
    parts = [*text_partitions(known, keys), likeness]
    if probabilities is not None:
        own = np.full(len(likely), np.nan)
        _, places, of = np.intersect1d(likely, text.keys, assume_unique=True, return_indices=True)
        own[places] = probabilities[of]
        parts.append(probability_partition(np.concatenate([probabilities, own])))
    tables = []
    for part in parts:
        found, size = part.of_links[:count], len(part.classes)
        links, correct = np.bincount(found, minlength=size), np.bincount(found, right, size)
        gold, zeros = np.bincount(part.of_links[count:], weights, size), np.zeros(size)
        measures = ExpectedCounts(links, correct, gold, zeros, zeros, zeros).measures()
        errors = {"wrong": links - correct, "missed": np.maximum(gold - correct, 0)}
        shown = (links > 0) | (gold >= 0.5)
        tables.append(class_rows(part, shown, measures, links=links, gold=gold, **errors))
    return pd.concat(tables, ignore_index=True)
