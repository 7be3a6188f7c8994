"""How far off `alignkit diagnose` is: its estimate of AER beside the AER against gold links, for several aligners.

    ALIGNKIT_DATA=DATA python benchmarks/diagnose.py -o benchmarks/results/diagnose --peer-python PYTHON

The sets are those of benchmarks/quality.py, prepared in the same way. The numbers of the estimator
(alignkit.uses.diagnose.evidence.Calibration) are chosen here, on the dev parts of sets whose gold links are
mostly sure. Each set's test part is judged with numbers chosen without that set ("left_out"), with those that the
program has ("shipped"), and without calibration. Beside this: alignments of one text made worse on purpose, and
how well calibrated link probabilities are, with and without gold links of other sets.

With --sizes, little text: the same of texts of so many pairs, the part cut to them or followed by an even choice
of training pairs; with and without embeddings as evidence for the views, and of links that were made with them.
The estimates are "left_out", "shipped", and "as_large", without the correction for words that are seldom repeated;
"inside": how often the interval around the estimate holds the AER.

What was measured of a set is kept in the folder of --keep and not measured again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import gold_sets, run_benchmark
from quality import environment, prepare, read_links
from quality_systems import FirstPairs, eflomal, measured

from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.links.symmetrization import symmetrize
from alignkit.metrics.aer import WordFacts, evaluate, link_keys
from alignkit.pipeline.align import align
from alignkit.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.uses.diagnose.diagnosis import calibration_error, diagnose_links, mean_log_count
from alignkit.uses.diagnose.evidence import (
    CALIBRATION,
    Calibration,
    Evidence,
    ExpectedEvaluation,
    evidence_logits,
    expected_link_counts,
    vote,
)

JOINED = "grow-diag-final-and"
#: name -> settings of align()
OURS: dict[str, dict[str, Any]] = {
    "align --quality fast": {"quality": "fast"},
    "align": {"embeddings": "none"},
    "hmm, grow-diag-final-and": {"method": "hmm", "symmetrization": JOINED},
    "diagonal, grow-diag-final-and": {"method": "diagonal", "symmetrization": JOINED},
    "ibm1, grow-diag-final-and": {"method": "ibm1", "symmetrization": JOINED},
    "ibm1, intersection": {"method": "ibm1", "symmetrization": "intersection"},
}
BEST = "align --quality best"
EMBEDDED = "align --embeddings e5"
BANDS = (0.7, 0.8, 0.9, 0.95)  # of printed probabilities
LITTLE_TEXT = (
    "In per cent; errors are estimate minus AER, in points; of hansards_en_fr the estimate is that for gold links "
    "of which some are only possible. left_out: shift and unlinked chosen on the other sets; the form of the "
    "correction and the margin of the interval were chosen on all dev parts. as_large: without the correction for "
    "words that are seldom repeated. inside: how often the interval around left_out holds the AER."
)
#: Gold links of which at least this share are sure say something about gold links that all are.
MOSTLY_SURE = 0.5
MOVED = (0.0, 0.05, 0.1, 0.2, 0.4)
WRONG_OF = 2500  # pairs of a text of which some are wrong
LEAST = 0.02  # pairs of words that are less probable are too many to be looked at
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Measured:
    """One part of one set: gold links, what the views say, and the links of all aligners.

    ``repetition`` is that of :func:`alignkit.uses.diagnose.diagnosis.mean_log_count`.
    """

    name: str
    repetition: float
    gold: GoldLinks
    evidence: Evidence
    best: Scores
    words: Scores
    systems: dict[str, Links]

    def estimate(self, links: Links, calibration: Calibration) -> tuple[ExpectedEvaluation, float]:
        """What is expected, and the AER of the kind of gold links that there are."""
        found = expected_link_counts(links, self.evidence, calibration).total()
        return found, found.aer if self.is_sure else found.aer_with_possible

    @property
    def is_sure(self) -> bool:
        """Whether most of the gold links are sure."""
        return len(self.gold.sure.pairs) >= MOSTLY_SURE * len(self.gold.possible.pairs)

    def right(self, links: Links) -> np.ndarray:
        """float64 (K,): 1 for links that are sure, 0.5 for those that are only possible, 0 for all others."""
        keys = link_keys(links)
        sure, possible = (np.isin(keys, link_keys(links)) for links in (self.gold.sure, self.gold.possible))
        return (sure + (sure | possible).astype(np.float64)) / 2

    def truth(self) -> np.ndarray:
        """bool: of each element of the matrices, whether it is a gold link, sure or possible."""
        found = np.zeros(len(self.evidence.unanimous), bool)
        for links in (self.gold.sure, self.gold.possible):
            found[self.evidence.places(links)] = True
        return found


def aligned(bitext: Bitext, files: tuple[str, str], count: int, python: str | None) -> Iterator[tuple[str, Links]]:
    """(name, links of the first pairs) of all aligners but the best."""
    for name, options in OURS.items():
        yield name, align(bitext, threads=1, **options).links.block(0, count)
    if python is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        measured(eflomal(python).command(*files, Path(folder), 1), 1)
        both = [read_links(Path(folder) / side, count) for side in ("forward", "reverse")]
    for method in (JOINED, "intersection"):
        yield f"eflomal, {method}", symmetrize(*both, method)


def measure(folder: Path, part: str, python: str | None) -> Measured:
    """Fit the views and all aligners."""
    with tempfile.TemporaryDirectory() as name:
        files, gold = prepare(folder, part, Path(name))
        bitext = read_bitext(*files)
        systems = dict(aligned(bitext, files, len(gold), python))
    return judged(f"{folder.name}:{part}", bitext, gold, systems)


def judged(
    name: str, bitext: Bitext, gold: GoldLinks, systems: dict[str, Links], embeddings: FirstPairs | None = None
) -> Measured:
    """What the views of a text say, beside the links of aligners."""
    votes = vote(bitext, len(gold), embeddings=embeddings, threads=1)
    best = BEST if embeddings is None else f"{BEST} --embeddings e5"
    systems[best] = links_above(votes.probabilities, JOINT_THRESHOLD)
    words = align(bitext, embeddings="none", threads=1).score().values[: len(votes.votes)]
    shapes, offsets = votes.probabilities.shapes, votes.probabilities.offsets
    evidence = Evidence(votes.support, votes.unanimous)
    return Measured(
        name,
        mean_log_count(WordFacts.of(votes.bitext, bitext)),
        gold,
        evidence,
        votes.probabilities,
        Scores(words, offsets, shapes),
        systems,
    )


def cut(folder: Path, part: str, size: int) -> tuple[Bitext, GoldLinks]:
    """A text of this many pairs, the part first, in lower case."""
    with tempfile.TemporaryDirectory() as name:
        files, gold = prepare(folder, part, Path(name))
        count, first = len(gold), min(len(gold), size)
        whole = [Path(file).read_bytes().decode().split("\n")[:-1] for file in files]
        rest = np.linspace(count, len(whole[0]) - 1, min(size - first, len(whole[0]) - count)).astype(int)
        sides = [[lines[m] for m in (*range(first), *rest)] for lines in whole]
    bitext = Bitext.from_sentences(*([line.split() for line in lines] for lines in sides))
    return bitext, GoldLinks(gold.sure.block(0, first), gold.possible.block(0, first))


def little_text(folder: Path, part: str, size: int, keep: Path | None) -> list[Measured]:
    """What is measured of a text of so many pairs, without and with embeddings as evidence for the views."""
    name = f"{folder.name}:{part}"
    paths = [None if keep is None else keep / f"{folder.name}.{part}.{size}{tag}.npz" for tag in ("", ".e5")]
    if all(path is not None and path.exists() for path in paths):
        return [load(path, name) for path in paths if path is not None]
    bitext, gold = cut(folder, part, size)
    first = FirstPairs(ContextualEmbeddings(), len(gold))
    systems = {key: align(bitext, threads=1, **each).links.block(0, len(gold)) for key, each in OURS.items()}
    systems[EMBEDDED] = align(bitext, threads=1, embeddings=first).links.block(0, len(gold))
    found = [judged(name, bitext, gold, dict(systems), embeddings) for embeddings in (None, first)]
    for path, each in zip(paths, found, strict=True):
        if path is not None:
            save(path, each)
    return found


def kept(folder: Path, part: str, python: str | None, keep: Path | None) -> Measured:
    """What was measured before, if it was kept, or else measured now and kept."""
    path = None if keep is None else keep / f"{folder.name}.{part}.npz"
    if path is not None and path.exists():
        return load(path, f"{folder.name}:{part}")
    found = measure(folder, part, python)
    if path is not None:
        save(path, found)
    return found


def save(path: Path, found: Measured) -> None:
    """Write what was measured."""
    evidence = found.evidence
    arrays = {"shapes": evidence.probabilities.shapes, "probabilities": evidence.probabilities.values}
    arrays |= {"repetition": np.array(found.repetition), "unanimous": evidence.unanimous}
    arrays |= {"best": found.best.values, "words": found.words.values}
    links = {"gold sure": found.gold.sure, "gold possible": found.gold.possible, **found.systems}
    for name, each in links.items():
        arrays |= {f"{name}/pairs": each.pairs, f"{name}/offsets": each.offsets}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def load(path: Path, name: str) -> Measured:
    """Read what :func:`save` wrote."""
    with np.load(path) as file:
        arrays = dict(file)
    offsets, shapes = flat_offsets(arrays["shapes"]), arrays["shapes"]
    scores = [Scores(arrays[key], offsets, shapes) for key in ("probabilities", "best", "words")]
    names = [key.removesuffix("/pairs") for key in arrays if key.endswith("/pairs")]
    links = {key: Links(arrays[f"{key}/pairs"], arrays[f"{key}/offsets"]) for key in names}
    gold = GoldLinks(links.pop("gold sure"), links.pop("gold possible"))
    evidence = Evidence(scores[0], arrays["unanimous"])
    return Measured(name, float(arrays["repetition"]), gold, evidence, *scores[1:], links)


def shift_of(
    evidence: np.ndarray, right: np.ndarray, weights: np.ndarray, trust: np.ndarray | float = 1.0
) -> float:
    """The shift of :class:`Calibration` with the greatest likelihood (Newton's method)."""
    given, found = evidence_logits(evidence), 0.0
    for _ in range(30):
        chance = 1 / (1 + np.exp(-trust * (found + given)))
        slope = (weights * trust**2 * chance * (1 - chance)).sum()
        found += float((weights * trust * (right - chance)).sum() / slope)
    return found


def chosen(sets: Sequence[Measured]) -> Calibration:
    """The numbers that fit these sets; all aligners and sets weigh the same."""
    values, right, weights, trust = [], [], [], []
    for each in sets:
        for links in each.systems.values():
            trust.append(np.full(len(links.pairs), CALIBRATION.of_text(each.repetition).trust))
            values.append(each.evidence.probabilities.values[each.evidence.places(links)])
            right.append(each.right(links))
            weights.append(np.full(len(links.pairs), 1 / max(len(links.pairs), 1)))
    shift = shift_of(*map(np.concatenate, (values, right, weights, trust)))
    start = Calibration(shift, 0.0, CALIBRATION.correlation)
    shares = []
    for each in sets:
        known = start.of_text(each.repetition)
        own = known.right(each.evidence.probabilities.values[each.evidence.own_links]).sum()
        alone = np.concatenate(each.evidence.unlinked).sum()
        shares.append((len(each.gold.sure.pairs) - own) / alone * known.trust**0.5)
    return replace(start, unlinked=float(np.mean(shares)))


def estimates(each: Measured, calibrations: dict[str, Calibration]) -> Iterator[Row]:
    """AER of every aligner, and its estimates."""
    for name, links in each.systems.items():
        true = evaluate(each.gold, links)
        row: Row = {"set": each.name, "aligner": name, "links": true.links, "aer": true.aer}
        for label, calibration in calibrations.items():
            found, value = each.estimate(links, calibration)
            row |= {label: value, f"{label}_error": value - true.aer}
            if label == "left_out":
                row |= {"precision": true.precision, "estimated_precision": found.precision}
                row |= {"recall": true.recall, "estimated_recall": found.recall}
        yield row


def moved(links: Links, shapes: np.ndarray, share: float, seed: int) -> Links:
    """The links, this share of which lead to random words of the target sentence."""
    draw = np.random.default_rng(seed)
    pairs = links.pairs.copy()
    chosen_ones = draw.random(len(pairs)) < share
    heights = shapes[links.sentences, 0]
    pairs[chosen_ones, 1] = (draw.random(len(pairs)) * heights)[chosen_ones].astype(np.int32)
    rows = [pairs[low:high].tolist() for low, high in zip(links.offsets, links.offsets[1:], strict=False)]
    return Links.from_lists([[(s, t) for s, t in row] for row in rows])


def made_worse(each: Measured, calibration: Calibration) -> Iterator[Row]:
    """AER and its estimate where a share of the links of `align` is moved."""
    for share in MOVED:
        links = moved(each.systems["align"], each.evidence.probabilities.shapes, share, seed=1)
        value = each.estimate(links, calibration)[1]
        yield {"set": each.name, "moved": share, "aer": evaluate(each.gold, links).aer, "left_out": value}


def reliability(each: Measured, others: list[Measured]) -> Iterator[Row]:
    """Expected calibration errors of link probabilities; possible links count as right.

    Of all pairs of words that are not very improbable, and of those that are printed.
    """
    best, truth = each.best.values.astype(np.float64), each.truth()
    own = each.words.values.astype(np.float64)
    maps = {"align": (own, own), "align --quality best": (best, best)}
    if others:
        values = np.concatenate([other.best.values for other in others])
        right = np.concatenate([other.truth() for other in others]).astype(np.float64)
        counted = values >= LEAST
        shift = shift_of(values[counted], right[counted], np.ones(int(counted.sum())))
        shifted = Calibration(shift, 0.0, 0.0).right(best)
        maps["the same, shifted by gold links of other sets"] = (best, shifted)
    for name, (given, values) in maps.items():
        row: Row = {"set": each.name, "probability": name}
        for label, counted in (("all", given >= LEAST), ("printed", values >= JOINT_THRESHOLD)):
            row[label] = calibration_error(values[counted], truth[counted].astype(np.float64))
        yield row


def with_wrong_pairs(folder: Path) -> Row:
    """How many pairs that are no translations are found, where one in twenty pairs has the target of another."""
    whole = [(folder / f"train.{side}").read_bytes().decode().split("\n")[:-1] for side in ("src", "tgt")]
    chosen_lines = np.linspace(0, len(whole[0]) - 1, WRONG_OF).astype(int)  # some texts are sorted by length
    sides = [[lines[m] for m in chosen_lines] for lines in whole]
    draw = np.random.default_rng(1)
    wrong = draw.choice(WRONG_OF, WRONG_OF // 20, replace=False)
    order = np.arange(WRONG_OF)
    order[wrong] = np.roll(wrong, 1)
    target = [sides[1][m] for m in order]
    links = Links.from_lists([[]] * WRONG_OF)
    found = diagnose_links(sides[0], target, links, threads=1).pairs["pairs_that_may_be_no_translations"] > 0
    hits = int(found[wrong].sum())
    return {
        "set": folder.name,
        "pairs": WRONG_OF,
        "wrong": len(wrong),
        "found": hits,
        "others": int(found.sum()) - hits,
    }


def table(title: str, rows: list[Row]) -> str:
    """A Markdown table; fractions in per cent."""
    names = list(rows[0])
    lines = [f"## {title}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = [f"{100 * row[name]:.1f}" if isinstance(row[name], float) else str(row[name]) for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n"


def bands(each: Measured) -> Row:
    """How many of the links that `align` prints are right, by their probability; possible links count as right."""
    values, truth = each.words.values.astype(np.float64), each.truth()
    printed = values >= np.float32(JOINT_THRESHOLD)
    row: Row = {"probability": float(values[printed].mean()), "right": float(truth[printed].mean())}
    for low, high in pairwise((JOINT_THRESHOLD, *BANDS, 1.01)):
        inside = printed & (values >= low) & (values < high)
        row[f"from {low}"] = float(truth[inside].mean()) if inside.any() else float("nan")
    return row


def by_size(
    part: str, names: list[str] | None, sizes: list[int], keep: Path | None
) -> tuple[list[Row], list[Row]]:
    """The estimates of little text, with the ends of the intervals around those of left_out; and :func:`bands`."""
    rows: list[Row] = []
    right: list[Row] = []
    for size in sizes:
        cells = {folder.name: little_text(folder, part, size, keep) for folder in gold_sets(part, names)}
        for name, pair in cells.items():
            right.append({"pairs": size, "set": name, **bands(pair[0])})
            others = [cell for other, each in cells.items() if other != name for cell in each if cell.is_sure]
            left = chosen(others)
            for evidence, cell in zip(("text", "text and e5"), pair, strict=True):
                known = left.of_text(cell.repetition)
                for links_name, links in cell.systems.items():
                    true, value = evaluate(cell.gold, links).aer, cell.estimate(links, known)[1]
                    low, high = known.interval(value)
                    shipped = CALIBRATION.of_text(cell.repetition)
                    row: Row = {"pairs": size, "set": name, "evidence": evidence, "aligner": links_name}
                    row |= {"aer": true, "left_out": value, "low": low, "high": high}
                    row |= {"inside": low <= true <= high, "trust": known.trust}
                    row["shipped"] = cell.estimate(links, shipped)[1]
                    row["as_large"] = cell.estimate(links, CALIBRATION)[1]
                    rows.append({key: round(x, 4) if isinstance(x, float) else x for key, x in row.items()})
            click.echo(f"{size} {name}", err=True)
    return rows, right


def size_summary(rows: list[Row]) -> list[Row]:
    """Mean errors and coverage by the number of pairs, the views' evidence, and that of the links."""
    found = []
    groups = dict.fromkeys((row["pairs"], row["evidence"], "e5" in row["aligner"]) for row in rows)
    for size, evidence, embedded in groups:
        own = [row for row in rows if (row["pairs"], row["evidence"]) == (size, evidence)]
        own = [row for row in own if ("e5" in row["aligner"]) == embedded]
        line: Row = {"pairs": size, "views know": evidence, "links from": "text and e5" if embedded else "text"}
        for label in ("as_large", "shipped", "left_out"):
            errors = np.array([row[label] - row["aer"] for row in own])
            line |= {f"{label}: bias": float(errors.mean()), f"{label}: mean": float(np.abs(errors).mean())}
        line["left_out: most"] = float(np.abs(errors).max())
        line |= {"cases": len(own), "inside": float(np.mean([row["inside"] for row in own]))}
        found.append(line)
    return found


def summary(rows: list[Row], labels: list[str]) -> list[Row]:
    """Mean and greatest error of the estimates of each set."""
    found = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        line: Row = {"set": name, "aligners": len(own)}
        for label in labels:
            errors = np.array([row[f"{label}_error"] for row in own])
            line |= {f"{label}: mean": float(np.abs(errors).mean()), f"{label}: most": float(np.abs(errors).max())}
        found.append(line)
    return found


@click.command()
@click.option("--sets", help="Names of sets, with commas between them.  [default: all]")
@click.option("--peer-python", help="The Python that has eflomal.  [default: eflomal is left out]")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for what was measured.")
@click.option("--sizes", help="Little text: numbers of pairs, with commas between them.")
@click.option("--part", default="test", show_default=True, help="With --sizes: test or dev.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(
    sets: str | None, peer_python: str | None, keep: Path | None, sizes: str | None, part: str, output: str
) -> None:
    """Estimated and true AER of several aligners."""
    names = sets.split(",") if sets is not None else None
    if sizes is not None:
        little, right = by_size(part, names, [int(size) for size in sizes.split(",")], keep)
        rows_of_json = ",\n ".join(json.dumps(row) for row in little)
        Path(f"{output}.json").write_text(f"[{rows_of_json}]\n")
        ours = [row for row in little if row["aligner"] in ("align", EMBEDDED)]
        shown = table(f"By size, {part} parts", size_summary(little)) + table("Links of align", ours)
        shown += table("Probabilities of align", right)
        Path(f"{output}.md").write_text(
            f"# Estimates of AER of little text\n\n{LITTLE_TEXT}\n\n{shown.rstrip()}\n"
        )
        return
    dev = {folder.name: kept(folder, "dev", peer_python, keep) for folder in gold_sets("dev", None)}
    sure = {name: each for name, each in dev.items() if each.is_sure}
    rows: list[Row] = []
    worse: list[Row] = []
    calibrated: list[Row] = []
    numbers: list[Row] = [{"without": "", **asdict(chosen(list(sure.values())))}]
    for folder in gold_sets("test", names):
        each = kept(folder, "test", peer_python, keep)
        left = chosen([other for name, other in sure.items() if name != folder.name])
        numbers.append({"without": folder.name, **asdict(left)})
        ways = {"left_out": left.of_text(each.repetition), "shipped": CALIBRATION.of_text(each.repetition)}
        ways["uncalibrated"] = Calibration(0.0, 0.0, 1.0)
        rows += estimates(each, ways)
        worse += made_worse(each, ways["left_out"])
        for cell in ([dev[folder.name]] if folder.name in dev else []) + [each]:
            calibrated += reliability(cell, [other for name, other in sure.items() if name != folder.name])
        click.echo(json.dumps(summary(rows, list(ways))[-1]), err=True)
    tables = {
        "summary": summary(rows, ["left_out", "shipped", "uncalibrated"]),
        "estimates": rows,
        "made worse": worse,
        "calibration errors": calibrated,
        "wrong pairs": [with_wrong_pairs(folder) for folder in gold_sets("dev", names)],
    }
    facts = {"environment": environment(peer_python) if peer_python is not None else {}, "numbers": numbers}
    Path(f"{output}.json").write_text(json.dumps(facts | tables, indent=1) + "\n")
    shown = "".join(table(title.capitalize(), found) for title, found in tables.items())
    note = (
        "In per cent; errors are estimate minus AER, in points. The estimate is that for gold links which are all "
        "sure, but for hansards_en_fr, most of whose gold links are only possible. left_out: with numbers chosen "
        "on the dev parts of other sets than the one that is estimated.\n\n"
    )
    listed = "\n".join(
        f"- without {row['without'] or 'none'}: "
        + ", ".join(f"{name} {value:.3f}" for name, value in row.items() if name != "without")
        for row in numbers
    )
    text = f"# Estimates of AER without gold links\n\n{note}Numbers of the estimator:\n\n{listed}\n\n{shown}"
    Path(f"{output}.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
