"""Alignment quality of our aligners and of the peers that are installed, on the sets found under ALIGNKIT_DATA.

    ALIGNKIT_DATA=DATA python benchmarks/quality.py -o benchmarks/results/quality

DATA/aer has a folder for each set, with train.src, train.tgt, test.src, test.tgt and test.gold, and perhaps the
same of dev (``--part dev``). Both sides are lower-cased, the part stands before the training text, both directions
are fitted and joined, and the first lines scored. Every aligner runs as a process of its own, whose wall time and
peak memory are reported; aligners take turns on a set, so that a machine that slows down slows all of them.
Writes OUT.json and OUT.md: the table, the reliability of link probabilities, and the ablation (``--ablation``).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np

from alignkit.bitext import Bitext
from alignkit.classical.hmm_joint import SETTINGS, JointFit, fit_joint
from alignkit.classical.symmetrisation import symmetrize
from alignkit.links import GoldLinks, Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.reading import read_bitext, read_lines

OURS = {
    "ours, best": ["best"],
    "hmm": ["hmm"],
    "diagonal": ["diagonal"],
    "ibm1": ["ibm1"],
}
Cost = tuple[float, float, float]
PEERS = ("eflomal", "systran-align")
PEER_METHODS = ("grow-diag-final-and", "grow-diag", "intersection")
ABLATION: dict[str, dict[str, Any]] = {
    "all": {},
    "no back-off to word classes": {"back_off": 0.0},
    "no fertility": {"fertility": 0.0},
    "a link's own part not taken out": {"exclude": False},
    "p0 = 0.2": {"null_probability": 0.2},
    "p0 = 0.02": {"null_probability": 0.02},
    "weaker lexical prior, 1e-4": {"lexical_prior": 1e-4},
    "stronger lexical prior, 1e-2": {"lexical_prior": 1e-2},
    "back-off 1": {"back_off": 1.0},
    "back-off 4": {"back_off": 4.0},
    "affixes of 4 letters": {"affixes": (4,)},
    "fertility to the full": {"fertility": 1.0},
    "3 iterations of the chain": {"iterations": 3},
    "8 iterations of the chain": {"iterations": 8},
    "maximum likelihood": {
        "lexical_prior": 0.0,
        "null_prior": 0.0,
        "jump_prior": 0.0,
        "back_off": 0.0,
        "fertility": 0.0,
        "exclude": False,
    },
}


def prepare(folder: Path, part: str, work: Path) -> tuple[list[str], GoldLinks]:
    """Writes the lower-cased text, the part first; (its two files, the part's gold)."""
    files = []
    for side in ("src", "tgt"):
        # The data has lines of words between spaces: no other character may end a line here.
        text = "".join((folder / f"{name}.{side}").read_bytes().decode().lower() for name in (part, "train"))
        (work / side).write_bytes(text.encode())
        files.append(str(work / side))
    gold = folder / f"{part}.gold"
    return files, parse_links(str(gold), read_lines(str(gold)))


def head(links: Links, count: int) -> Links:
    """The first ``count`` pairs."""
    return Links(links.pairs[: links.offsets[count]], links.offsets[: count + 1])


def read_links(path: Path, count: int) -> Links:
    return head(parse_links(str(path), read_lines(str(path))).possible, count)


# A process starts with the peak memory of the one that forked it, so a small one of its own stands between.
LAUNCHER = """
import os, resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
seconds = time.perf_counter() - start
if done.returncode:
    sys.exit(done.stderr.decode(errors="replace")[-500:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def measured(command: list[str]) -> Cost:
    """Runs a command; wall seconds, processor seconds, peak MB of it or of its largest child."""
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, *command], capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"{command[0]} failed: {done.stderr.strip()}")
    seconds, processor, peak = map(float, done.stdout.split())
    return seconds, processor, peak


def run_ours(name: str, files: list[str], work: Path, threads: int) -> Cost:
    """Fits and links in a process of its own; the links go to work/links."""
    script = [sys.executable, str(Path(__file__).resolve()), *files]
    return measured([*script, "--one", OURS[name][0], "--threads", str(threads), "-o", str(work / "links")])


def warm_up(work: Path) -> None:
    """Compiles what is not in the cache yet, outside the times."""
    for side, line in (("src", "a b c\n"), ("tgt", "x y z\n")):
        (work / side).write_text(line * 3)
    for name in OURS:
        run_ours(name, [str(work / "src"), str(work / "tgt")], work, 1)


def fit_one(name: str, bitext: Bitext, threads: int) -> Links:
    """The links of one of our aligners, joined as its own default is."""
    from alignkit.classical.bidirectional import fit_concurrently

    if name == "best":
        return fit_joint(bitext, threads=threads).links
    if name == "hmm":
        from alignkit.classical.hmm import fit_hmm

        return fit_concurrently(bitext, lambda text, n: fit_hmm(text, threads=n), threads=threads).links(bitext)
    if name == "diagonal":
        from alignkit.classical.diagonal import fit_diagonal

        return fit_concurrently(bitext, lambda text, n: fit_diagonal(text, threads=n), threads=threads).links(
            bitext
        )
    from alignkit.classical.ibm1 import fit_ibm1

    return fit_concurrently(bitext, lambda text, n: fit_ibm1(text, threads=n), threads=threads).links(bitext)


def run_eflomal(files: list[str], work: Path, threads: int, program: str) -> Cost:
    """Both directions with the defaults."""
    links = ["-f", str(work / "forward"), "-r", str(work / "reverse")]
    os.environ["OMP_NUM_THREADS"] = str(threads)
    return measured([program, "-s", files[0], "-t", files[1], *links, "--overwrite"])


SYSTRAN = """
import sys, systran_align
joined, forward, reverse, out = sys.argv[1:]
systran_align.generate_alignment_probabilities(
    joined, forward, reverse, favor_diagonal=True, optimize_tension=True, variational_bayes=True
)
sides = [[part.split() for part in line.split(" ||| ")] for line in open(joined, encoding="utf-8", newline="\\n")]
found = systran_align.Aligner(forward, reverse).align_batch(*map(list, zip(*sides)))
with open(out, "w") as stream:
    for pair in found:
        stream.write(" ".join(f"{s}-{t}" for s, t in pair["alignments"]) + "\\n")
"""


def run_systran(files: list[str], work: Path, threads: int, python: str) -> Cost:
    """fast_align's model with its usual settings, both directions joined by its grow-diag-final-and."""
    sides = (Path(path).read_bytes().split(b"\n")[:-1] for path in files)
    (work / "joined").write_bytes(b"".join(x + b" ||| " + y + b"\n" for x, y in zip(*sides, strict=True)))
    os.environ["OMP_NUM_THREADS"] = str(threads)
    names = ("joined", "systran.forward", "systran.reverse", "links")
    return measured([python, "-c", SYSTRAN, *(str(work / name) for name in names)])


def has_systran(python: str) -> bool:
    """Whether this Python can import the peer."""
    return subprocess.run([python, "-c", "import systran_align"], capture_output=True).returncode == 0


def row(name: str, gold: GoldLinks, links: Links, seconds: float, processor: float, peak: float) -> dict[str, Any]:
    found = evaluate(gold, links)
    numbers = {"aer": found.aer, "precision": found.precision, "recall": found.recall}
    return {"aligner": name, **numbers, "seconds": seconds, "cpu": processor, "mb": peak}


def score_set(
    folder: Path, part: str, threads: int, runs: int, eflomal: str | None, systran: str | None
) -> list[dict[str, Any]]:
    """All aligners on one set; times are medians of the runs, in which the aligners take turns."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        warm_up(work)
        files, gold = prepare(folder, part, work)
        times: dict[str, list[Cost]] = {}
        found: dict[str, Links] = {}
        for _ in range(runs):
            for ours in OURS:
                times.setdefault(ours, []).append(run_ours(ours, files, work, threads))
                found[ours] = read_links(work / "links", len(gold))
            if systran is not None:
                times.setdefault("systran-align", []).append(run_systran(files, work, threads, systran))
                found["systran-align"] = read_links(work / "links", len(gold))
            if eflomal is None:
                continue
            spent = run_eflomal(files, work, threads, eflomal)
            forward, reverse = (read_links(work / side, len(gold)) for side in ("forward", "reverse"))
            for method in PEER_METHODS:
                label = f"eflomal, {method}"
                times.setdefault(label, []).append(spent)
                found[label] = symmetrize(forward, reverse, method)
    rows = [row(name, gold, links, *np.median(times[name], axis=0)) for name, links in found.items()]
    return [{"set": folder.name, **line} for line in rows]


def fit_text(folder: Path, part: str, threads: int, **changes: Any) -> tuple[JointFit, GoldLinks]:
    with tempfile.TemporaryDirectory() as name:
        files, gold = prepare(folder, part, Path(name))
        bitext = read_bitext(*files)
    return fit_joint(bitext, replace(SETTINGS, **changes), threads=threads), gold


def reliability(folder: Path, part: str, threads: int) -> list[dict[str, Any]]:
    """Predicted against actual precision of links in ten bins of their probability; possible links count as right.

    Pairs of tokens of probability below 0.02 are left out: there are too many of them to mean anything.
    """
    fitted, gold = fit_text(folder, part, threads)
    chances, right = [], []
    for m in range(len(gold)):
        matrix = fitted.probabilities[m]
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
            predicted, actual = float(chance[chosen].mean()), float(hit[chosen].mean())
            bounds = f"{low:.1f}-{low + 0.1:.1f}"
            rows.append(
                {
                    "set": folder.name,
                    "bin": bounds,
                    "pairs": int(chosen.sum()),
                    "predicted": predicted,
                    "actual": actual,
                }
            )
    return rows


def ablation(folders: list[Path], part: str, threads: int) -> list[dict[str, Any]]:
    """AER of the best aligner with one thing changed at a time."""
    rows = []
    for name, changes in ABLATION.items():
        line: dict[str, Any] = {"setting": name}
        for folder in folders:
            fitted, gold = fit_text(folder, part, threads, **changes)
            line[folder.name] = evaluate(gold, head(fitted.links, len(gold))).aer
        rows.append(line)
        click.echo(json.dumps(line), err=True)
    return rows


def environment() -> dict[str, str]:
    """What this ran on, and the versions."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    versions = {"python": platform.python_version()}
    for package in ("alignkit", "numpy", "numba", *PEERS):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {"machine": f"{os.cpu_count()} cores of {cpu or platform.processor()}, {platform.system()}", **versions}


def markdown(title: str, rows: list[dict[str, Any]]) -> str:
    """A table; fractions as percentages."""
    if not rows:
        return ""
    percent = {"aer", "precision", "recall", "predicted", "actual"}

    def shown(name: str, value: Any) -> str:
        if not isinstance(value, float):
            return str(value)
        return f"{100 * value:.1f}" if name in percent or "_" in name else f"{value:.1f}"

    names = list(rows[0])
    lines = [f"## {title}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(shown(name, line[name]) for name in names) + " |" for line in rows]
    return "\n".join(lines) + "\n\n"


@click.command()
@click.argument("text", nargs=-1)
@click.option("--one", hidden=True, help="Fit one of our aligners on the two files given (a process of its own).")
@click.option("--part", type=click.Choice(["test", "dev"]), default="test", show_default=True)
@click.option("--sets", help="Names of sets, with commas between them.  [default: all]")
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option(
    "--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Of which times are medians."
)
@click.option("--eflomal", default="eflomal-align", show_default=True, help="Its program, skipped if not found.")
@click.option(
    "--peer-python", default=sys.executable, help="The Python that may have systran-align.  [default: this]"
)
@click.option("--ablation", "ablate", is_flag=True, help="Only the ablation (on dev: settings were chosen there).")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(
    text: tuple[str, ...],
    one: str | None,
    part: str,
    sets: str | None,
    threads: int,
    runs: int,
    eflomal: str,
    peer_python: str,
    ablate: bool,
    output: str,
) -> None:
    """Quality, time and memory of aligners on gold-aligned sets."""
    if one is not None:
        Path(output).write_bytes(fit_one(one, read_bitext(*text), threads).to_pharaoh())
        return
    data = os.environ.get("ALIGNKIT_DATA")
    if data is None:
        raise click.UsageError("Set ALIGNKIT_DATA to the folder of the data.")
    wanted = sets.split(",") if sets else None
    folders = sorted(path for path in (Path(data) / "aer").iterdir() if (path / f"{part}.gold").exists())
    folders = [path for path in folders if wanted is None or path.name in wanted]
    result: dict[str, Any] = {"environment": environment(), "part": part, "threads": threads, "runs": runs}
    if ablate:
        result["ablation"] = ablation(folders, part, threads)
    else:
        program, python = shutil.which(eflomal), peer_python if has_systran(peer_python) else None
        result["quality"] = []
        for folder in folders:
            rows = score_set(folder, part, threads, runs, program, python)
            click.echo(markdown(folder.name, rows), err=True)
            result["quality"] += rows
        result["reliability"] = [line for folder in folders for line in reliability(folder, part, threads)]
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    facts = ", ".join(f"{name} {value}" for name, value in result["environment"].items())
    tables = "".join(
        markdown(name.capitalize(), result[name])
        for name in ("quality", "reliability", "ablation")
        if name in result
    )
    Path(f"{output}.md").write_text(f"# Alignment quality, {part} sets\n\n{facts}; {threads} threads\n\n{tables}")


if __name__ == "__main__":
    main()
