"""AER of attention as an aligner, with and without a guide, along training, beside the classical aligner.

    ALIGNKIT_DATA=DATA python benchmarks/guided_attention.py -o benchmarks/results/guided --sets hansards_en_fr

DATA/aer has a folder for each set, as benchmarks/quality.py wants it. Both sides are lower-cased; development and
test text stand before the training text. `alignkit align` (quality ``normal``) gives the guide: the probability of
every link. Two small transformers, one for each direction, are trained by turns on the bitext alone, and every few
minutes of processor time OUT.json gets a row: the AER of the links that both directions' shifted attention gives,
with the layer and head chosen by the agreement of the directions, without gold links; of their mean probability
above a threshold; and of the mean of it and the classical probability.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
from inputs import gold_sets, machine, run_benchmark
from torch import Tensor

from alignkit.classical.hmm.joint import fit_joint
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.links.symmetrization import symmetrize
from alignkit.metrics.aer import evaluate
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import set_threads
from alignkit.neural.settings import Reading, RunSettings, TextSettings, TrainingSettings, TransformerSettings
from alignkit.neural.training.loop import optimise
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import Guide, TranslationTask
from alignkit.scores import Scores, token_words
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.reading import read_lines
from alignkit.text.tokenization import EOS, Tokenizer, encode_bitext, split_words, train_subwords

HEURISTICS = ("grow-diag-final-and", "grow-diag", "intersection")
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
SETTINGS = RunSettings(
    TextSettings(pieces=8000),
    TransformerSettings(
        embedding=256, hidden=512, layers=2, heads=4, dropout=0.1, reading=Reading(layer=2, head=1, shifted=True)
    ),
    TrainingSettings(
        batch=64,
        learning_rate=1e-3,
        epochs=100,
        rate_warmup=300,
        rate_decay="inverse-sqrt",
        label_smoothing=0.1,
        guide_weight=1.0,
        bleu="never",
    ),
)
Gold = dict[str, tuple[slice, GoldLinks]]


def read_set(folder: Path) -> tuple[LinePairs, Gold]:
    """The lower-cased text, gold-aligned pairs first, and where the pairs of each part are."""
    parts = [name for name in ("dev", "test") if (folder / f"{name}.gold").exists()]
    gold: Gold = {}
    sides: tuple[list[str], list[str]] = ([], [])
    for name in (*parts, "train"):
        start = len(sides[0])
        for side, lines in zip(("src", "tgt"), sides, strict=True):
            lines += (folder / f"{name}.{side}").read_bytes().decode().lower().split("\n")[:-1]
        if name != "train":
            place = str(folder / f"{name}.gold")
            gold[name] = slice(start, len(sides[0])), parse_links(place, read_lines(place))
    return LinePairs(*sides), gold


def words(text: LinePairs, end: int | None = None) -> Bitext:
    return Bitext.from_sentences(*([split_words(line) for line in side[:end]] for side in text))


def transposed(scores: Scores) -> Scores:
    return Scores.from_matrices(matrix.T for matrix in scores)


def mixed(first: Scores, second: Scores, share: float) -> Scores:
    """The weighted mean of two scores."""
    return Scores.from_matrices(share * a + (1 - share) * b for a, b in zip(first, second, strict=True))


def errors(links: Links, gold: Gold) -> dict[str, float]:
    """AER of each part."""
    return {name: evaluate(own, links.block(place.start, place.stop)).aer for name, (place, own) in gold.items()}


def classical(text: LinePairs) -> Scores:
    """The link probabilities of `alignkit align`."""
    found = fit_joint(words(text), threads=1).fitted_probabilities
    assert found is not None
    return found


def score_guide(scores: Scores, text: LinePairs, bitext: Bitext, tokenizer: Tokenizer) -> Guide:
    """The guide that probabilities of links between whitespace words give, such as an aligner's posteriors.

    A word's probability is divided among its tokens. What a row lacks to 1, the probability of no link, goes to
    the source's end token, if it has one; a row that exceeds 1 is scaled down to it. Elements below 0.01 are left
    out.

    Args:
        scores: (T, L) probabilities of M pairs, kind ``alpha``.
        text, bitext, tokenizer: as of :func:`alignkit.neural.training.translation.word_guide`.
    """
    rows, columns, weights, sizes = [], [], [], [0]
    for m, matrix in enumerate(scores):
        source, target = bitext.source[m], bitext.target[m]
        of_source = token_words(tokenizer, text.source[m], np.asarray(source))
        of_target = token_words(tokenizer, text.target[m], np.asarray(target))
        found = token_distributions(matrix, of_source, of_target, int(source[-1]) == EOS if len(source) else False)
        t, s = np.nonzero(found >= 0.01)
        rows.append(t)
        columns.append(s)
        weights.append(found[t, s])
        sizes.append(sizes[-1] + len(t))
    parts = [np.concatenate(part) if part else np.zeros(0) for part in (rows, columns, weights)]
    kinds = (np.int64, np.int64, np.float32)
    arrays = (part.astype(kind) for part, kind in zip(parts, kinds, strict=True))
    return Guide(np.array(sizes, np.int64), *arrays)


def token_distributions(
    matrix: np.ndarray, of_source: np.ndarray, of_target: np.ndarray, has_end: bool
) -> np.ndarray:
    """(target tokens, source tokens): the words' matrix, each column divided among the tokens of its word."""
    found = np.zeros((len(of_target), len(of_source)), np.float32)
    rows, columns = np.flatnonzero(of_target >= 0), np.flatnonzero(of_source >= 0)
    if not len(rows):
        return found
    by_word = matrix / np.maximum(matrix.sum(1, keepdims=True), 1.0)
    if len(columns):
        counts = np.bincount(of_source[columns], minlength=matrix.shape[1])
        found[np.ix_(rows, columns)] = by_word[of_target[rows]][:, of_source[columns]] / counts[of_source[columns]]
    if has_end:
        found[rows, -1] = 1 - found[rows].sum(1)
    return found


def new_trainers(text: LinePairs, guide: Scores | None) -> list[Trainer[Any, Any]]:
    """Of source to target, and of target to source."""
    tokenizer = train_subwords([*text.source, *text.target], SETTINGS.text.pieces)
    trainers = []
    for reverse in (False, True):
        own = LinePairs(text.target, text.source) if reverse else text
        encoded = encode_bitext(tokenizer, *own)
        held = encode_bitext(tokenizer, *(side[-500:] for side in own))
        wanted = None
        if guide is not None:
            wanted = score_guide(transposed(guide) if reverse else guide, own, encoded, tokenizer)
        trainers.append(Trainer(TranslationTask(encoded, held, SETTINGS, tokenizer, guide=wanted)))
    return trainers


def train(trainer: Trainer[Any, Any], seconds: float) -> None:
    """Take steps for some seconds of processor time."""
    task, training, start = trainer.task, SETTINGS.training, process_time()
    batches = lru_cache(maxsize=1)(task.batches)  # of the epoch

    def loss(step: int) -> Tensor:
        epoch, place = divmod(step, task.epoch_steps)
        return task.loss(trainer.network.train(), batches(epoch)[place], step)

    how: dict[str, Any] = {"start": trainer.step, "seed": training.seed, "rate": training.rate}
    how |= {"device": task.device, "pinned": trainer.network.pinned}
    for step in optimise(trainer.optimiser, loss, task.last_step, **how):
        trainer.step = step
        if process_time() - start >= seconds:
            return


def best_readings(
    forward: NeuralAligner, reverse: NeuralAligner, bitext: Bitext, back: Bitext
) -> tuple[float, list[tuple[Reading, Links]]]:
    """The layers and heads whose links agree best, their F1, between the two directions (Chen et al. 2020)."""

    def links_of(network: NeuralAligner, text: Bitext) -> list[tuple[Reading, Links]]:
        layers, heads = SETTINGS.network.attention_layers, SETTINGS.network.heads
        readings = [Reading(1 + n, k, True) for n in range(layers) for k in range(heads + 1)]  # head 0: the mean
        return [(reading, network.with_reading(reading).on_words().links(text)) for reading in readings]

    behind = [(reading, links.reversed) for reading, links in links_of(reverse, back)]
    pairs = [(ahead, other) for ahead in links_of(forward, bitext) for other in behind]
    agreed = [evaluate(GoldLinks(other[1], other[1]), ahead[1]).f1 for ahead, other in pairs]
    best = int(np.nanargmax(agreed))
    return agreed[best], list(pairs[best])


def measured(trainers: list[Trainer[Any, Any]], text: LinePairs, gold: Gold, teacher: Scores) -> dict[str, Any]:
    """AER of the two networks' links and of mixtures."""
    count = max(place.stop for place, _ in gold.values())
    bitext = words(text, count)
    back = Bitext(bitext.target, bitext.source)
    networks = [
        trainer.task.aligner(trainer.network, trainer.step, dict(trainer.task.measure(trainer.network, 0)))
        for trainer in trainers
    ]
    row: dict[str, Any] = {"loss": [network.metrics["valid.loss"] for network in networks]}
    f1, chosen = best_readings(*networks, bitext, back)
    row["chosen"] = {"f1": f1, "readings": [[reading.layer, reading.head] for reading, _ in chosen]}
    for method in HEURISTICS:
        row[f"chosen {method}"] = errors(symmetrize(*(links for _, links in chosen), method), gold)
    pairs = {
        "chosen": tuple(one.with_reading(reading) for one, (reading, _) in zip(networks, chosen, strict=True)),
        "guided": tuple(network.with_reading(SETTINGS.network.reading) for network in networks),
    }
    for name, (forward, reverse) in pairs.items():
        ahead, behind = (one.on_words() for one in (forward, reverse))
        mean = mixed(ahead.score(bitext), transposed(behind.score(back)), 0.5)
        for share in (0.0, 0.25, 0.5, 0.75):
            scores = mixed(teacher, mean, share)
            for threshold in THRESHOLDS:
                row[f"{name} mean, {share} classical, above {threshold}"] = errors(
                    links_above(scores, threshold), gold
                )
    return row


def markdown(found: dict[str, Any]) -> str:
    """The curves; AER above the threshold that is best on the part itself, for every column alike."""
    lines = ["# AER of attention along training", "", next(iter(found.values()))["machine"] + "; one thread.", ""]
    lines += [
        "Minutes are those of processor time, both networks together. Attention: its links, symmetrized by "
        "intersection and by grow-diag-final-and, with the layer and head that agree best; and the mean of both "
        "directions' weights of the head that was guided. Mixed: that mean and the probabilities of `alignkit "
        "align`. Where links are those above a threshold, it is the best of a few for this very part, in all "
        "columns "
        "alike.",
    ]
    for name, run in found.items():
        for part in next(iter(run["align"].values())):
            best = min(each[part] for each in run["align"].values())
            lines += ["", f"## {name}, {part}", "", f"`alignkit align`: {100 * best:.1f}", ""]
            titles = (
                "minutes",
                "steps",
                "intersection",
                "grow-diag-final-and",
                "mean",
                "mixed, 1/2",
                "mixed, 3/4",
            )
            lines += [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
            for row in run["rows"]:
                cells = [row[f"chosen {method}"][part] for method in HEURISTICS[::-2]]
                for share in (0.0, 0.5, 0.75):
                    start = f"guided mean, {share} classical"
                    cells.append(min(values[part] for key, values in row.items() if key.startswith(start)))
                shown = " | ".join(f"{100 * cell:.1f}" for cell in cells)
                lines.append(f"| {row['minutes']:g} | {', '.join(map(str, row['steps']))} | {shown} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--sets", help="Names of sets, with commas between them.  [default: all]")
@click.option("--guide/--no-guide", default=True, show_default=True)
@click.option("--minutes", type=float, default=20.0, show_default=True, help="Of processor time, both directions.")
@click.option("--every", type=float, default=4.0, show_default=True, help="Minutes between two measurements.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(sets: str | None, guide: bool, minutes: float, every: float, output: str) -> None:
    """AER of attention along training."""
    set_threads(1)
    place = Path(f"{output}.json")
    for folder in gold_sets("test", sets.split(",") if sets is not None else None):
        text, gold = read_set(folder)
        teacher = classical(text)
        count = max(part.stop for part, _ in gold.values())
        known = Scores.from_matrices(teacher[m] for m in range(count))
        base = {str(value): errors(links_above(known, value), gold) for value in THRESHOLDS}
        trainers = new_trainers(text, teacher if guide else None)
        rows: list[dict[str, Any]] = []
        spent = 0.0
        while spent < minutes - 1e-9:
            for trainer in trainers:
                train(trainer, 30 * every)
            spent += every
            row = {"minutes": spent, "steps": [trainer.step for trainer in trainers]}
            rows.append(row | measured(trainers, text, gold, known))
            report = {"machine": machine(), "set": folder.name, "guide": guide, "pairs": len(text.source)}
            found = json.loads(place.read_text()) if place.exists() else {}
            found[f"{folder.name} {'guided' if guide else 'unguided'}"] = {**report, "align": base, "rows": rows}
            place.write_text(json.dumps(found, indent=1) + "\n")
            Path(f"{output}.md").write_text(markdown(found))
            click.echo(json.dumps(rows[-1]), err=True)
        for name, trainer in zip(("forward", "reverse"), trainers, strict=True):
            trainer.task.aligner(trainer.network, trainer.step, {}).save(f"{output}-{folder.name}-{name}.pt")


if __name__ == "__main__":
    run_benchmark(main)
