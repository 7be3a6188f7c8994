"""Words that were deleted from translations or added to them, found by their probability of having no counterpart.

    ALIGNKIT_DATA=DATA python benchmarks/omissions.py -o benchmarks/results/omissions

Of each set of DATA/aer, up to --pairs pairs of the test part are damaged, each once in every way: target words are
deleted, or words of another pair are added at a random place. They are a content word (four letters or more, not
among the 100 most frequent words), a phrase (2 to 4 words, one of them such), a clause (5 to 13 words, between
marks of punctuation), or a function word (of the 50 most frequent). The source words of what is deleted have no
other gold link. An aligner is a model of at most --most-training pairs of the training part, without embeddings;
or it is fitted to the damaged pairs alone, with e5. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import gold_sets, run_benchmark
from scipy.stats import rankdata

from alignkit.links.coverage import Coverage
from alignkit.links.links import parse_links
from alignkit.pipeline.align import align
from alignkit.text.reading import read_lines
from alignkit.text.vocabulary import is_punctuation

COMMON, FUNCTION, LETTERS = 100, 50, 4
KINDS = ("content word", "phrase", "clause", "function word")
LEAST_WORDS = 4  # of each side
BINS = 10
Pairs = set[tuple[int, int]]


@dataclass
class Case:
    """A pair before and after its damage.

    Attributes:
        source, target: the words now.
        before: both sides without damage.
        side: that has words without counterpart, 0 or 1.
        lost: these words; kept: the words of this side that have gold links still.
    """

    source: list[str]
    target: list[str]
    before: tuple[list[str], list[str]]
    side: int
    lost: set[int]
    kept: set[int]


def spans_of(kind: str, words: list[str], links: Pairs, ranked: list[str]) -> list[tuple[int, int]]:
    """The spans of target words of a kind, with gold links, whose source words are linked to them alone."""
    n, found = len(words), []
    is_content = [len(w) >= LETTERS and w.isalpha() and w.lower() not in ranked for w in words]
    for low in range(n):
        for high in range(low + 1, min(n, low + 13) + 1):
            size, content = high - low, sum(is_content[low:high])
            marks = sum(map(is_punctuation, words[low:high]))
            fits = {
                "content word": size == content == 1,
                "phrase": 2 <= size <= 4 and content and not marks,
                "clause": size >= 5
                and content >= 2
                and (low == 0 or is_punctuation(words[low - 1]))
                and (high == n or is_punctuation(words[high - 1]) or is_punctuation(words[high])),
                "function word": size == 1 and words[low].lower() in ranked[:FUNCTION],
            }
            inside = {s for s, t in links if low <= t < high}
            if fits[kind] and inside and not any(s in inside and not low <= t < high for s, t in links):
                found.append((low, high))
    return found


def damaged(
    kind: str, added: bool, pairs: list[tuple[list[str], list[str], Pairs]], ranked: list[str]
) -> list[Case]:
    """Each pair with words of a kind deleted, or added from another pair, where that can be done."""
    draw, cases = random.Random(f"{kind} {added}"), []
    spans = [spans_of(kind, target, links, ranked) for _, target, links in pairs]
    for m, (source, target, links) in enumerate(pairs):
        others = [k for k in range(len(pairs)) if spans[k] and (k != m if added else k == m)]
        if min(len(source), len(target)) < LEAST_WORDS or not others:
            continue
        k = draw.choice(others)
        low, high = draw.choice(spans[k])
        if added:
            at, new = draw.randrange(len(target) + 1), pairs[k][1][low:high]
            now, lost = target[:at] + new + target[at:], set(range(at, at + len(new)))
            kept = {t + len(new) * (t >= at) for _, t in links}
        else:
            now = target[:low] + target[high:]
            lost = {s for s, t in links if low <= t < high}
            kept = {s for s, _ in links} - lost
        if now:
            cases.append(Case(source, now, (source, target), int(added), lost, kept))
    return cases


def auc(positive: list[float], negative: list[float]) -> float:
    """The probability that one of these values is above one of those, where equal ones count half."""
    ranks = rankdata([*positive, *negative])[: len(positive)]
    return float((ranks.sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))


def coverages(
    source: list[list[str]], target: list[list[str]], how: dict[str, Any]
) -> tuple[list[Coverage], np.ndarray]:
    """The coverage of each pair, and its mean log-probability per word in both directions."""
    aligned = align(source, target, threads=1, **how)
    return [aligned.coverage(m) for m in range(len(aligned))], aligned.sentence_scores.mean(axis=1)


def measured(cases: list[Case], how: dict[str, Any]) -> dict[str, float]:
    """What an aligner finds of one kind of damage."""
    after, scores = coverages([c.source for c in cases], [c.target for c in cases], how)
    before, scores_before = coverages([c.before[0] for c in cases], [c.before[1] for c in cases], how)
    lost, kept, caught, claimed = [], [], [], []
    for case, now, intact in zip(cases, after, before, strict=True):
        of_words = (now.source_probabilities, now.target_probabilities)[case.side]
        lost += [of_words[n] for n in case.lost]
        kept += [of_words[n] for n in case.kept]
        shown = (now.omissions(), now.additions())[case.side]
        caught.append(any(gap.start <= n < gap.end for gap in shown for n in case.lost))
        claimed.append(bool(intact.omissions() if case.side == 0 else intact.additions()))
    return {
        "pairs": len(cases),
        "AUC of words": 100 * auc(lost, kept),
        "shown": 100 * float(np.mean(caught)),
        "shown before the damage": 100 * float(np.mean(claimed)),
        "AUC of pairs": 100 * auc([each.share for each in after], [each.share for each in before]),
        "by sentence scores": 100 * auc((-scores).tolist(), (-scores_before).tolist()),
    }


@click.command(help=__doc__)
@click.option("--pairs", "most", default=120, show_default=True, help="Of each set.")
@click.option("--most-training", default=10_000, show_default=True, help="Pairs of training text.")
@click.option("--part", default="test", show_default=True, help="Of the sets.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(most: int, most_training: int, part: str, output: str) -> None:
    rows = []
    for place in gold_sets(part, None):
        sides = [[line.split() for line in read_lines(place / f"{part}.{side}")][:most] for side in ("src", "tgt")]
        gold = parse_links(place / f"{part}.gold", read_lines(place / f"{part}.gold"))
        links = [
            {(s, t) for each in (gold.sure, gold.possible) for s, t in each[m].tolist()}
            for m in range(len(sides[0]))
        ]
        pairs = list(zip(*sides, links, strict=True))
        training = [
            [line.split() for line in read_lines(place / f"train.{side}")[:most_training]]
            for side in ("src", "tgt")
        ]
        counts = Counter(w.lower() for line in training[1] + sides[1] for w in line if not is_punctuation(w))
        ranked = [word for word, _ in counts.most_common(COMMON)]
        model = align(*training, embeddings="none", threads=1).aligner
        for name, how in (("model", {"model": model}), ("e5 alone", {"embeddings": "e5"})):
            for added in (False, True):
                for kind in KINDS:
                    cases = damaged(kind, added, pairs, ranked)
                    if cases:
                        row = {
                            "set": place.name,
                            "aligner": name,
                            "damage": "added" if added else "deleted",
                            "kind": kind,
                        }
                        rows.append({**row, **measured(cases, how)})
                        click.echo(json.dumps(rows[-1]), err=True)
    Path(f"{output}.json").write_text(json.dumps(rows, indent=1) + "\n")
    names = [name for name in rows[0] if name not in ("set", "pairs")]
    lines = [f"| {' | '.join(names)} |", "|---|---|---|" + "--:|" * (len(names) - 3)]
    for key in dict.fromkeys(tuple(row[name] for name in names[:3]) for row in rows):
        of_key = [row for row in rows if tuple(row[name] for name in names[:3]) == key]
        means = [f"{np.mean([row[name] for row in of_key]):.1f}" for name in names[3:]]
        lines.append(f"| {' | '.join([*key, *means])} |")
    title = f"# Omissions and additions, means of {len({row['set'] for row in rows})} sets"
    Path(f"{output}.md").write_text("\n".join([title, "", *lines]) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
