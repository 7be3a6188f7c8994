"""Quality, time and memory of aligners on gold-aligned sets, ours and the peers that are installed.

    ALIGNKIT_DATA=DATA python benchmarks/quality.py -o benchmarks/results/quality --peer-python PYTHON

DATA/aer has a folder for each set, with train.src, train.tgt, test.src, test.tgt and test.gold, and perhaps the
same of dev (``--part dev``). Both sides are lower-cased, the part stands before the training text, both directions
are fitted and joined, and the first lines scored. Every aligner runs on every set as a process of its own, whose
wall time, processor time and peak memory are reported.

OUT.json gets each result as it comes, and what it has is not measured again (``--again`` does), so that a long run
can be done in pieces, by ``--sets``, ``--only`` and ``--tables``. OUT.md has the tables: quality; the reliability
of link probabilities; links at several thresholds; the ablation, one ingredient of the best aligner changed at a
time; and, only if asked for, errors and probabilities by kind of link, with and without each view:

    python benchmarks/quality.py --part dev --tables kinds -o benchmarks/results/quality-kinds
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from inputs import gold_sets, machine, run_benchmark
from quality_systems import Cost, System, importable, measured, systems

from alignkit.classical.hmm import joint, views
from alignkit.classical.hmm.joint import JointHMM, fit_joint, fit_view
from alignkit.classical.hmm.link_probabilities import Attachment, PhraseEdges
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, LINK_CHOICES
from alignkit.classical.hmm.views import View, ViewedText
from alignkit.kernels.link_probabilities import INTERCEPT, SLOPE
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.links.symmetrization import symmetrize
from alignkit.metrics.aer import ComparedLinks, evaluate, linked_words
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines
from alignkit.text.vocabulary import Vocabulary, punctuation_types

METHODS = ("grow-diag-final-and", "grow-diag", "intersection")
TABLES = ("quality", "reliability", "thresholds", "ablation", "kinds")
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
#: Links by their words: both marks at the end; others with a mark; with a FREQUENT word of a side; others. n-m:
#: one of the words has several sure gold links; in what is said of proposed links, several of these.
KINDS = ("final marks", "other marks", "function 1-1", "function n-m", "content 1-1", "content n-m")
FREQUENT = 50
SMALL = ("SMALL_VIEWS", "FEW_WORDS_VIEWS")
#: Views that the aligner of a small text goes without, and whether words are attached.
AS_IT_IS = "as it is"
WITHOUT: dict[str, Callable[[View], Any]] = {
    AS_IT_IS: lambda _: False,
    "no subwords": lambda view: view.subwords,
    "no first letters": lambda view: view.letters,
    "no collocations": lambda view: view.joined,
    "words only": lambda view: view != View(),
    "words are not attached": lambda _: False,
}
# No settings of the estimation.
ALONE, UNATTACHED, LEVEL, UNJOINED = "alone", "unattached", "level", "unjoined"
ABLATION: dict[str, dict[str, Any]] = {
    AS_IT_IS: {},
    "words only, also of small texts": {"views": (View(),)},
    "words that stand together are no units": {UNJOINED: True},
    "views do not learn from each other": {"co_training": 0.0},
    "frequent words are not attached to others": {UNATTACHED: True},
    "words lean to neither neighbour": {LEVEL: True},
    "no back-off to classes by first and last letters": {"back_off": 0.0},
    "no fertility": {"fertility": 0.0},
    "a link's own part not taken out of its counts": {"leave_one_out": False},
    "in the last E-step, too, only as far as the link is expected": {"least_own": 0.0},
    "neither fertility nor back-off": {"fertility": 0.0, "back_off": 0.0},
    "no evidence from spelling": {"spelling": 0.0},
    "punctuation is linked like any word": {"punctuation": 1.0},
    "neither spelling nor punctuation": {"spelling": 0.0, "punctuation": 1.0},
    "no weights of last positions": {"ends": False},
    "no prior on jumps": {"transition_prior": 0.0},
    "lexical prior 1e-3": {"dirichlet": 1e-3},
    "lexical prior 1e-2": {"dirichlet": 1e-2},
    "p0 = 0.2": {"null_probability": 0.2},
    "small texts iterated as long as large ones": {"tolerance": 0.04},
    "5 iterations of the chain, whatever still moves": {"iterations": 5, "tolerance": 0.0},
    "words only, without what the links beside a link say": {ALONE: True},
    "maximum likelihood (agreement alone)": {
        "dirichlet": 0.0,
        "null_prior": 0.0,
        "transition_prior": 0.0,
        "back_off": 0.0,
        "fertility": 0.0,
        "leave_one_out": False,
        "spelling": 0.0,
        "punctuation": 1.0,
        "ends": False,
        "co_training": 0.0,
    },
}
#: What the tables' readers must know of the sets' texts.
TEXTS = (
    "Training texts: cdt_da_en and ult_hbo_en have text of the gold's own kind; that of hansards_en_fr is "
    "Tatoeba, that of europarl_de_en Tatoeba and a sample of WMT 2014, and only their gold is of the Hansards and "
    "of Europarl (docs/data-sets.md)."
)
RELIABILITY = "predicted", "actual", "difference"
Row = dict[str, Any]


def prepare(folder: Path, part: str, work: Path) -> tuple[tuple[str, str], GoldLinks]:
    """Write the lower-cased text, the part first; return (its two files, the part's gold)."""
    for side in ("src", "tgt"):
        # The data has lines of words between spaces: no other character may end a line here.
        text = "".join((folder / f"{name}.{side}").read_bytes().decode().lower() for name in (part, "train"))
        (work / side).write_bytes(text.encode())
    gold = folder / f"{part}.gold"
    return (str(work / "src"), str(work / "tgt")), parse_links(str(gold), read_lines(str(gold)))


def head(links: Links, count: int) -> Links:
    """The first ``count`` pairs."""
    return links.block(0, count)


def read_links(path: Path, count: int) -> Links:
    return head(parse_links(str(path), read_lines(str(path))).possible, count)


def joined(system: System, work: Path, count: int) -> Iterator[tuple[str, Links]]:
    """(how the directions were joined, links of the first ``count`` pairs)."""
    if not system.directions:
        yield "", read_links(work / "links", count)
        return
    forward, reverse = (read_links(work / side, count) for side in ("forward", "reverse"))
    for method in METHODS:
        yield method, symmetrize(forward, reverse, method)


def scores(gold: GoldLinks, links: Links) -> Row:
    found = evaluate(gold, links)
    return {"aer": found.aer, "precision": found.precision, "recall": found.recall, "links": found.links}


def warm_up(system: System, threads: int) -> None:
    """Compile kernels that are not in the cache yet, outside of the times."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for side, line in (("src", "a b c\n"), ("tgt", "x y z\n")):
            (work / side).write_text(line * 3)
        measured(system.command(str(work / "src"), str(work / "tgt"), work, threads), threads)


def measure_quality(folder: Path, part: str, system: System, threads: int) -> list[Row]:
    """Rows of one aligner on one set."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        files, gold = prepare(folder, part, work)
        pairs = (work / "src").read_bytes().count(b"\n")
        if system.most_pairs is not None and pairs > system.most_pairs:
            return []
        if system.compiled:
            warm_up(system, threads)
        cost: Cost = measured(system.command(*files, work, threads), threads)
        key = {"set": folder.name, "aligner": system.name, "threads": threads}
        return [
            {**key, "joined": method or "its own", **scores(gold, links), **asdict(cost)}
            for method, links in joined(system, work, len(gold))
        ]


def read_set(folder: Path, part: str) -> tuple[Bitext, GoldLinks]:
    """A part of a set before its training text, and the part's gold links."""
    with tempfile.TemporaryDirectory() as name:
        files, gold = prepare(folder, part, Path(name))
        return read_bitext(*files), gold


def fit_text(folder: Path, part: str, threads: int, **changes: Any) -> tuple[Scores, GoldLinks]:
    """The link probabilities of a text that the best aligner is fitted on, and its gold links."""
    bitext, gold = read_set(folder, part)
    if ALONE in changes:
        assert len(changes) == 1
        log_odds = fit_view(ViewedText(View(), bitext), JOINT_SETTINGS, threads)[1]
        values = 1 / (1 + np.exp(-(INTERCEPT + SLOPE * log_odds.values)))
        return replace(log_odds, values=values), gold
    if UNATTACHED in changes:
        with patch.object(Attachment, "apply"):
            return fit_joint(bitext, threads=threads).fitted_probabilities, gold
    if LEVEL in changes:
        with patch.object(PhraseEdges, "cohesion", lambda *_: None):
            return fit_joint(bitext, threads=threads).fitted_probabilities, gold
    if UNJOINED in changes:
        with patch.object(views, "find_collocations", lambda *_: Vocabulary.from_tokens([])):
            return fit_joint(bitext, threads=threads).fitted_probabilities, gold
    return fit_joint(bitext, threads=threads, **changes).fitted_probabilities, gold


def reliability(name: str, probabilities: Scores, gold: GoldLinks) -> list[Row]:
    """Predicted against actual precision of links in ten bins of their probability; possible links count as right.

    Pairs of tokens of probability below 0.02 are left out: there are too many of them to mean anything. The last
    row is of all of these; its difference is the expected calibration error (Naeini et al. 2015).
    """
    chances, right = [], []
    for m in range(len(gold)):
        matrix = probabilities[m]
        truth = np.zeros(matrix.shape, bool)
        for links in (gold.possible, gold.sure):
            s, t = links[m].T
            truth[t, s] = True
        chances.append(matrix.ravel())
        right.append(truth.ravel())
    chance, hit = np.concatenate(chances), np.concatenate(right)
    rows = []
    for low in np.arange(10) / 10:
        chosen = (chance >= max(low, 0.02)) & ((chance < low + 0.1) | (low > 0.85))
        if chosen.any():
            key = {"set": name, "bin": f"{low:.1f}-{low + 0.1:.1f}", "pairs": int(chosen.sum())}
            predicted, actual = float(chance[chosen].mean()), float(hit[chosen].mean())
            rows.append({**key, "predicted": predicted, "actual": actual, "difference": abs(predicted - actual)})
    pairs = [row["pairs"] for row in rows]
    means = {each: float(np.average([row[each] for row in rows], weights=pairs)) for each in RELIABILITY}
    return [*rows, {"set": name, "bin": "all", "pairs": sum(pairs), **means}]


def thresholds(name: str, model: JointHMM, gold: GoldLinks) -> list[Row]:
    """Precision and recall of the best aligner's links at several thresholds, and of sure links and all."""
    chosen = {value: model.with_threshold(value) for value in THRESHOLDS}
    chosen |= {f"--links {choice}": model.that_finds(choice) for choice in LINK_CHOICES}
    found = ((value, each.fitted_links) for value, each in chosen.items())
    return [{"set": name, "threshold": value, **scores(gold, head(links, len(gold)))} for value, links in found]


def environment(peer_python: str) -> dict[str, str]:
    """The machine and the versions."""
    found = {"python": platform.python_version()}
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    with suppress(OSError):
        found["commit"] = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    found |= {package: metadata.version(package) for package in ("alignkit", "numpy", "numba")}
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    modules = {"eflomal": "eflomal", "sil-thot": "thot", "systran-align": "systran_align", "nltk": "nltk"}
    for package, module in modules.items():
        if importable(peer_python, module):
            done = subprocess.run([peer_python, "-c", code, package], capture_output=True, text=True)
            found[package] = done.stdout.strip()
    return {"machine": machine(), **found}


def markdown(title: str, rows: list[Row]) -> str:
    """A table; fractions as percentages."""
    if not rows:
        return ""
    percent = {"aer", "precision", "recall", *RELIABILITY}

    def shown(name: str, value: Any) -> str:
        if not isinstance(value, float) or name == "threshold":
            return str(value)
        if name in percent or "_" in name:
            return f"{100 * value:.1f}"
        return f"{value:.0f}" if name == "mb" else f"{value:.1f}"

    names = list(rows[0])
    lines = [f"## {title}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(shown(name, line.get(name, "")) for name in names) + " |" for line in rows]
    return "\n".join(lines) + "\n\n"


class Results:
    """The content of OUT.json, written again after each result."""

    def __init__(self, output: str, part: str, peer_python: str, remark: str) -> None:
        self.json, self.markdown = Path(f"{output}.json"), Path(f"{output}.md")
        self.part = part
        known = self.read()
        if known.get("part", part) != part:
            raise click.UsageError(f"{self.json} is of the {known['part']} parts; give another -o.")
        self.environment = environment(peer_python)
        self.remark = remark or known.get("remark", "")
        self.notes = {system.name: system.note for system in systems(peer_python) if system.note}

    def read(self) -> dict[str, Any]:
        """Read the file again: another process may have added to it."""
        known = json.loads(self.json.read_text()) if self.json.exists() else {}
        self.tables: dict[str, list[Row]] = {name: known.get(name, []) for name in TABLES}
        return known

    def has(self, table: str, **key: Any) -> bool:
        return any(key.items() <= row.items() for row in self.tables[table])

    def put(self, table: str, rows: list[Row], keys: tuple[str, ...]) -> None:
        """Replace the rows that have the same keys, and write."""
        self.read()
        new = {tuple(row[name] for name in keys) for row in rows}
        kept = [row for row in self.tables[table] if tuple(row[name] for name in keys) not in new]
        self.tables[table] = kept + rows
        if table not in ("ablation", "kinds"):
            self.tables[table].sort(key=lambda row: row["set"])
        for row in rows:
            click.echo(json.dumps(row), err=True)
        self.write()

    def write(self) -> None:
        facts = {"environment": self.environment, "remark": self.remark, "part": self.part}
        self.json.write_text(json.dumps({**facts, **self.tables}, indent=1) + "\n")
        versions = ", ".join(f"{name} {value}" for name, value in self.environment.items())
        notes = "".join(f"- {name}: {note}.\n" for name, note in self.notes.items())
        tables = "".join(markdown(name.capitalize(), self.tables[name]) for name in TABLES)
        remark = f"{self.remark}\n\n" if self.remark else ""
        title = f"# Alignment quality, {self.part} sets\n\n{versions}\n\n"
        self.markdown.write_text(f"{title}{TEXTS}\n\n{remark}{notes}\n{tables}".rstrip() + "\n")


def run_ablation(results: Results, folders: list[Path], part: str, threads: int, again: bool) -> None:
    """AER of the best aligner with one thing changed at a time, a column for each set."""
    for name, changes in ABLATION.items():
        known = next((row for row in results.tables["ablation"] if row["setting"] == name), {"setting": name})
        row = dict(known)
        for folder in folders:
            if folder.name in row and not again:
                continue
            probabilities, gold = fit_text(folder, part, threads, **changes)
            row[folder.name] = scores(gold, head(links_above(probabilities, JOINT_THRESHOLD), len(gold)))["aer"]
            row = {"setting": name, **{key: row[key] for key in sorted(row) if key != "setting"}}
            results.put("ablation", [row], ("setting",))


def kinds(bitext: Bitext, keys: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The kind of each link, keys as of ``link_keys``, given which of them, bool (K,), make words n-m."""
    several, are_marks, are_frequent = np.zeros(len(keys), bool), [], []
    for side, place, words in zip((bitext.source, bitext.target), "st", linked_words(bitext, keys), strict=True):
        _, tokens = np.unique(keys["m"] << 32 | keys[place], return_inverse=True)
        several |= np.bincount(tokens[chosen], minlength=len(keys))[tokens] > 1
        marks = punctuation_types(side.vocabulary)
        counts = np.bincount(side.tokens, minlength=len(marks)) * ~marks
        are_marks.append(marks[words])
        are_frequent.append(np.isin(words, np.argsort(-counts, kind="stable")[:FREQUENT]))
    last = (bitext.shapes[keys["m"]] == np.stack([keys["t"], keys["s"]], axis=1) + 1).all(axis=1)
    of_words = 2 + several + 2 * ~np.logical_or(*are_frequent)
    return np.where(np.logical_or(*are_marks), 1 - (last & np.logical_and(*are_marks)), of_words)


def run_kinds(results: Results, folder: Path, part: str, threads: int) -> None:
    """Of each kind, with and without each view: per cent missed, per cent wrong, share of all errors; of its links
    as it is, the mean probability and per cent right."""
    bitext, gold = read_set(folder, part)
    for name, is_left_out in WITHOUT.items():
        kept = {each: tuple(view for view in getattr(joint, each) if not is_left_out(view)) for each in SMALL}
        with patch.multiple(joint, **kept):
            model = fit_joint(bitext, threads=threads)
        model = model.without_attachment if "attached" in name else model
        links, chances = model.fitted_links_and_probabilities
        compared = ComparedLinks.of(gold, head(links, len(gold)))
        by_gold, by_links = (kinds(bitext, compared.keys, each) for each in (compared.sure, compared.found))
        count, own = compared.counts(by_gold, len(KINDS)), compared.counts(by_links, len(KINDS))
        missed, wrong = count.sure - count.in_sure, count.found - count.in_possible
        shares = missed / count.sure, wrong / count.found, (missed + wrong) / (missed + wrong).sum()
        sums = np.bincount(by_links[compared.found], chances[: links.offsets[len(gold)]], len(KINDS))
        tables = {name: shares}
        if name == AS_IT_IS:
            tables["its links: probability, right"] = sums / own.found, own.in_possible / own.found
        for setting, values in tables.items():
            for kind, cell in zip(KINDS, np.transpose(values), strict=True):
                row = {"setting": setting, "kind": kind}
                row = next((each for each in results.tables["kinds"] if row.items() <= each.items()), row)
                row |= {folder.name: " ".join(f"{100 * value:.0f}" for value in cell)}
                results.put("kinds", [row], ("setting", "kind"))


@click.command()
@click.option("--part", type=click.Choice(["test", "dev"]), default="test", show_default=True)
@click.option("--sets", help="Names of sets, with commas between them.  [default: all]")
@click.option("--only", help="Names of aligners (parts of them), with commas between them.  [default: all]")
@click.option("--tables", default=",".join(TABLES[:-1]), show_default=True, help="Which to fill.")
@click.option("--again", is_flag=True, help="Measure what OUT.json has already, too.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--peer-python", default=sys.executable, help="The Python that has the peers.  [default: this]")
@click.option("--remark", default="", help="A sentence on this machine for OUT.md.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(part: str, sets: str | None, threads: int, peer_python: str, **options: Any) -> None:
    """Quality, time and memory of aligners on gold-aligned sets."""
    only, again = options["only"], options["again"]
    folders = gold_sets(part, sets.split(",") if sets is not None else None)
    results = Results(options["output"], part, peer_python, options["remark"])
    wanted = options["tables"].split(",")
    for folder in folders:
        for system in systems(peer_python) if "quality" in wanted else []:
            chosen = only is None or any(name in system.name for name in only.split(","))
            if chosen and (
                again or not results.has("quality", set=folder.name, aligner=system.name, threads=threads)
            ):
                rows = measure_quality(folder, part, system, threads)
                results.put("quality", rows, ("set", "aligner", "threads"))
        left = [name for name in ("reliability", "thresholds") if name in wanted]
        if left and (again or not all(results.has(name, set=folder.name) for name in left)):
            bitext, gold = read_set(folder, part)
            model = fit_joint(bitext, threads=threads)
            results.put("reliability", reliability(folder.name, model.fitted_probabilities, gold), ("set",))
            results.put("thresholds", thresholds(folder.name, model, gold), ("set",))
        if "kinds" in wanted:
            run_kinds(results, folder, part, threads)
    if "ablation" in wanted:
        run_ablation(results, folders, part, threads, again)
    results.write()


if __name__ == "__main__":
    run_benchmark(main)
