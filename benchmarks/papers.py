"""The figures that the authors' own runs printed beside ours (Snell et al. 2021), like for like.

    python benchmarks/papers.py RUNS -o benchmarks/results

RUNS holds run directories of `alignkit train` on the untokenised, cased text of Multi30k (German to English), as
far as they have come: general-N with attention and seed N, uniform-N without, sum-N with --set network.output=sum,
random-N with batches of any lengths, as the authors had them. The first general run is measured with the first
uniform one, the second with the second, and so on; where one kind ends, it begins again:

    alignkit train train.raw.de train.raw.en --valid val.raw.de val.raw.en -o RUNS/general-1 --preset paper \\
        --set training.bleu=logged --seed 1 \\
        [--attention uniform | --set network.output=sum | --set training.buckets=false]

The rows of the classifiers are read from classification-*.json in the folder of the results
(benchmarks/classification.py). Writes papers.json and papers.md; call it again when more is trained,
or with --keep when the classifiers' results are new, or RUNS has other runs than those that papers.json tells of.
What is measured of runs takes a quarter of an hour each time; it is kept in RUNS/labs and RUNS/scores, so that a
call that was interrupted goes on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click
import pandas as pd
from classification import versions
from inputs import machine, need_files, run_benchmark
from papers_rows import IMDB, SST, Cell, Row, classifier_rows, unturned_rows
from papers_translation import (
    Course,
    Kept,
    Labs,
    Measured,
    are_finished,
    curve_rows,
    over_seeds,
    saliency_rows,
    sum_row,
    translation_rows,
)

from alignkit.lab.report.tables import records
from alignkit.lab.time_course import Network, TimeCourseSettings, at_step, row_name, series, time_course
from alignkit.lab.translation import AUTHORS, PERFORMANCES, best_network, lab
from alignkit.metrics.registry import MAIN
from alignkit.neural.devices import set_threads
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext

RANDOM = ("general-", "random-")  #: A and B of :func:`random_batches`
LAST = 36_250  #: steps of 20 epochs in batches of 16
NO_LABS: Labs = {"ours": [], "plain": [], "authors": []}


def measured_runs(found: dict[str, Path]) -> list[tuple[Path, Path]]:
    """The runs with attention, each with the uniform run that it is measured with, and the other way round."""
    general, uniform = (
        [path for name, path in found.items() if name.startswith(kind)] for kind in ("general", "uniform")
    )
    number = max(len(general), len(uniform)) if general and uniform else 0
    return list(islice(zip(cycle(general), cycle(uniform), strict=True), number))


def saliency_courses(
    found: dict[str, Path], courses: dict[str, Course], device: str, score: KeptScores
) -> dict[str, Course]:
    """A(uniform.beta, lstm.delta) by the step of the uniform run, for every finished run with attention; those of
    ``courses`` are not measured again."""
    settings = TimeCourseSettings(kinds=("beta",), metrics=(MAIN,), order="step", resamples=0)
    courses = {**courses}
    for path, uniform in measured_runs(found):
        general, run = TranslationRun(path), TranslationRun(uniform)
        if not general.finished or path.name in courses:
            continue
        delta = {path.name: best_network(general, "accuracy", device).score(run.valid, "delta")}
        table = time_course(run, run.valid, delta, settings, device=device, score=score)
        course = zip(*series(table, row_name(MAIN.symbol, at_step("beta"), path.name)), strict=True)
        courses[path.name] = [{"step": int(step), "agreement": float(value)} for step, value in course]
    return courses


def random_batches(found: dict[str, Path], device: str) -> Course:
    """A(alpha of A, alpha of B) by the step of B, which was trained with batches of any lengths, and its accuracy
    and BLEU there: rows with step, agreement, accuracy and bleu."""
    runs = [next((path for name, path in found.items() if name.startswith(kind)), None) for kind in RANDOM]
    if None in runs:
        return []
    first, second = (TranslationRun(path) for path in runs if path is not None)
    alpha = best_network(first, "accuracy", device).score(first.valid, "alpha")
    settings = TimeCourseSettings(kinds=("alpha",), metrics=(MAIN,), order="fixed", resamples=0)
    table = time_course(second, first.valid, {"lstm.alpha": alpha}, settings, device=device)
    names = {"agreement": row_name(MAIN.symbol, "lstm.alpha", at_step("alpha")), **PERFORMANCES}
    known = {
        key: dict(zip(*(part.tolist() for part in series(table, name)), strict=True))
        for key, name in names.items()
    }
    return [
        {"step": int(step), **{key: values.get(step) for key, values in known.items()}}
        for step in known["agreement"]
    ]


def run_facts(path: Path) -> dict[str, Any]:
    """How far a run has come."""
    run = TranslationRun(path)
    rows = run.log.rows
    bleu = run.log.series("valid.bleu")
    facts: dict[str, Any] = {"last_step": max(row.step for row in rows), "finished": run.finished}
    facts |= {"seed": run.settings.training.seed, "attention": run.settings.network.attention}
    facts["best_accuracy"] = run.log.best("valid.accuracy", largest=True)[1]
    if bleu:
        step, value = run.log.best("valid.bleu", largest=True)
        facts |= {"best_bleu": value, "its_step": step, "last_bleu": bleu[-1][1]}
    return facts


def render(facts: dict[str, Any], rows: list[Row]) -> str:
    """The page."""
    lines = [f"# {facts['title']}", "", f"    {facts['command']}", "", facts["note"], ""]
    lines += [f"{facts['machine']}; " + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + ".", ""]
    lines += ["| run | seed | last step | finished | best BLEU (step) |", "|---|---|---|---|---|"]
    for name, run in facts["runs"].items():
        best = f"{run['best_bleu']:.1f} ({run['its_step']})" if "best_bleu" in run else ""
        lines.append(
            f"| {name} | {run['seed']} | {run['last_step']} | {'yes' if run['finished'] else 'no'} | {best} |"
        )
    header = ["quantity", "authors", "ours, by their rules", "ours, by ours", "by ours, tokenised text"]
    header += ["cause of the difference", "their rule"]
    lines += ["", f"| {' | '.join(header)} |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    if not facts["conventions"]:
        return "\n".join(lines) + "\n"
    lines += ["", "What the conventions do to the first seed's rows, with intervals over sentences:", ""]
    lines += ["| row | ours | largest, best accuracy | and the proxy's bias |", "|---|---|---|---|"]
    for one in facts["conventions"]:
        shown = [Cell(**one[key]).text() if one[key] else "" for key in ("ours", "plain", "authors")]
        lines.append(f"| A({one['u']}, {one['v']}) | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def conventions(ours: list[Measured], plain: list[Measured], authors: list[Measured]) -> list[dict[str, Any]]:
    """Every row of the first seed with uniform.beta, by the rules of each lab."""
    if not ours:
        return []
    table, rows = ours[0].table, []
    for u, v in zip(table.u, table.v, strict=True):
        if "uniform.beta" in (u, v):
            labs = {"ours": ours, "plain": plain, "authors": authors}
            cells = {name: over_seeds(each[:1], u, v) if each else Cell() for name, each in labs.items()}
            known = {name: None if cell.value != cell.value else interval_of(cell) for name, cell in cells.items()}
            rows.append({"u": u, "v": v, **known})
    return rows


def interval_of(cell: Cell) -> dict[str, float]:
    return {"value": cell.value, "low": cell.low, "high": cell.high}


def measure(runs: Path, found: dict[str, Path], labs: Labs, bleu: bool, device: str) -> Labs:
    """The labs of every seed with attention, whose second run is the next one if there are several.

    Args:
        labs: the runs of these are not measured again.
    """
    known = {tuple(each.table[["run", "uniform"]].iloc[0]) for each in labs["ours"]}
    pairs = measured_runs(found)
    labs = {name: [*each] for name, each in labs.items()}
    score = KeptScores(runs / "scores")
    for number, (path, uniform) in enumerate(pairs):
        if (path.name, uniform.name) in known:
            continue
        second = pairs[(number + 1) % len(pairs)][0]
        other = None if second == path else second
        chosen = {"ours": {"both_directions": True}, "authors": {**AUTHORS, "bleu": bleu}}
        if not labs["plain"]:
            chosen["plain"] = {**AUTHORS, "proxy_bias": False}
        for name, options in chosen.items():
            click.echo(f"{path.name}, {uniform.name}: {name}", err=True)
            state = {each.name: run_facts(each) for each in (path, second, uniform)} | {"bleu": bleu}
            place = runs / "labs" / f"{path.name}-{uniform.name}-{name}.json"
            one = earlier(place, state) or lab(path, other, uniform, device=device, score=score, **options)
            keep_lab(place, state, one)
            labs[name].append(Kept(one.table.assign(run=path.name, uniform=uniform.name), one.seeds))
    return labs


class KeptScores:
    """The scores of networks; those of the lexical probe, which take long, are kept in files for other labs.

    Args:
        folder: where the files are; settings, step, text and kind tell them apart.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, network: Network, pairs: Bitext, kind: str) -> Scores:
        if kind != "beta":
            return network.score(pairs, kind)
        tokens = [part.tobytes() for side in (pairs.source, pairs.target) for part in (side.tokens, side.offsets)]
        facts = json.dumps([asdict(network.settings), network.step, network.fingerprint], default=str)
        path = self.folder / f"{hashlib.sha256(b''.join([facts.encode(), *tokens])).hexdigest()[:32]}.npz"
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            scores = network.score(pairs, kind)
            scores.save(path)
            return scores
        return Scores.load(path)


def earlier(place: Path, state: dict[str, Any]) -> Kept | None:
    """What an interrupted call has measured of runs that have come no further since."""
    known = json.loads(place.read_text()) if place.exists() else {}
    if known.get("state") != state:
        return None
    seeds = known["seeds"]
    return Kept(pd.DataFrame(known["table"]), None if seeds is None else pd.DataFrame(seeds))


def keep_lab(place: Path, state: dict[str, Any], found: Measured) -> None:
    """Keeps what was measured of runs for the next call."""
    place.parent.mkdir(exist_ok=True)
    seeds = None if found.seeds is None else records(found.seeds)
    kept_lab = _without_nan({"state": state, "table": records(found.table), "seeds": seeds})
    place.write_text(json.dumps(kept_lab, indent=1, allow_nan=False) + "\n")


def kept(output: Path) -> Labs:
    """The labs of the last call, from its papers.json."""
    need_files(output / "papers.json", remedy="call it without --keep first")
    found = json.loads((output / "papers.json").read_text())
    tables = {name: [pd.DataFrame(rows) for rows in many] for name, many in found["labs"].items()}
    seeds = [None if rows is None else pd.DataFrame(rows) for rows in found["seeds"]]
    labs: Labs = {name: [Kept(table, None) for table in many] for name, many in tables.items()}
    return labs | {"authors": [Kept(*both) for both in zip(tables["authors"], seeds, strict=True)]}


def kept_states(output: Path) -> dict[str, dict[str, Any]]:
    """The runs of the last call, from its papers.json."""
    found: dict[str, dict[str, Any]] = json.loads((output / "papers.json").read_text())["runs"]
    return found


def kept_random(output: Path) -> Course:
    """What :func:`random_batches` found in the last call, from its papers.json."""
    found: Course = json.loads((output / "papers.json").read_text()).get("random", [])
    return found


def kept_saliency(output: Path) -> dict[str, Course]:
    """What :func:`saliency_courses` found in the last call, from its papers.json."""
    found: dict[str, Course] = json.loads((output / "papers.json").read_text()).get("saliency", {})
    return found


@click.command()
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the results.")
@click.option(
    "--bleu", is_flag=True, help="Translate at the checkpoints whose BLEU was not logged, for xi by BLEU."
)
@click.option("--keep", is_flag=True, help="Keep what papers.json has, and measure only runs that it lacks.")
@click.option("--device", default="auto", show_default=True)
@click.option("--threads", type=int)
def main(runs: Path, output: Path, bleu: bool, keep: bool, device: str, threads: int | None) -> None:
    """Measure what is trained, read the rest, write the table."""
    set_threads(threads)
    names = ("general-*", "uniform-*", "sum-*", "random-*")
    paths = sorted(path for name in names for path in runs.glob(name) if (path / "best.pt").exists())
    found = {path.name: path for path in paths}
    labs = measure(runs, found, kept(output) if keep else NO_LABS, bleu, device)
    states = (kept_states(output) if keep else {}) | {name: run_facts(path) for name, path in found.items()}
    random = kept_random(output) if keep else random_batches(found, device)
    score = KeptScores(runs / "scores")
    saliency = saliency_courses(found, kept_saliency(output) if keep else {}, device, score)
    write_results(output, labs, states, random, saliency, bleu)


def write_results(
    output: Path,
    labs: Labs,
    states: dict[str, dict[str, Any]],
    random: Course,
    saliency: dict[str, Course],
    bleu: bool,
) -> None:
    """Write the page and its figures.

    Args:
        output: the folder, which has the classifiers' results.
        labs: of :func:`measure`; states: of each run, of :func:`run_facts`; random: of :func:`random_batches`;
            saliency: of :func:`saliency_courses`.
        bleu: whether the runs were translated where BLEU was not logged.
    """
    finished = are_finished(states)
    rows = translation_rows(labs, states, output, random)
    followed = {each.table.run.iloc[0] for each in labs["authors"] if each.seeds is not None}
    rows += curve_rows(
        labs["authors"], are_finished({name: states[name] for name in followed & {*states}}), random
    )
    rows += saliency_rows(saliency, labs["authors"], finished)
    rows.append(sum_row(states))
    rows += classifier_rows(output, "sst2", SST) + classifier_rows(output, "imdb", IMDB) + unturned_rows(output)
    facts = {
        "title": "The authors' figures beside ours (Snell et al. 2021)",
        "command": "python benchmarks/papers.py RUNS -o benchmarks/results" + (" --bleu" if bleu else ""),
        "note": "Multi30k, German to English, untokenised and cased, with the paper's network; validation text, "
        "1,014 pairs. Their figures are the output of the authors' own runs. Intervals are over seeds, or over "
        "sentences where all seeds share one network (uniform-N, the proxy), whose own variance they then lack. "
        f"The whole training has about {LAST:,} steps; unfinished runs count as far as they are. Figures of the "
        "tokenised, lower-cased text are those of lab-multi30k.md. Classifiers' embeddings start at random.",
        "machine": machine(),
        "versions": versions(),
        "runs": states,
        "conventions": conventions(labs["ours"], labs["plain"], labs["authors"]),
    }
    shown = [
        {"name": r.name, "authors": r.authors, "theirs": vars(r.theirs), "ours": vars(r.ours), "cause": r.cause()}
        for r in rows
    ]
    tables = {name: [records(each.table) for each in many] for name, many in labs.items()}
    seeds = [None if each.seeds is None else records(each.seeds) for each in labs["authors"]]
    output.mkdir(parents=True, exist_ok=True)
    whole = _without_nan(
        {**facts, "table": shown, "labs": tables, "seeds": seeds, "random": random, "saliency": saliency}
    )
    (output / "papers.json").write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
    (output / "papers.md").write_text(render(facts, rows))
    click.echo((output / "papers.md").read_text())


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value


if __name__ == "__main__":
    run_benchmark(main)
