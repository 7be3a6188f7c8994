"""``gated-classifier``, ``output-relevance`` and ``deceptive-attention``: what classifiers attend to.

``gated-classifier``: relevance first, then attention (post "Approximating How Single Head Attention Learns").

The post's classifier is an LSTM whose attention is linear in its states and has no decoder state:

    a_l = alpha . h_l,    p = softmax(a),    Pr[positive] = sigma(W sum_l p_l h_l) = sigma(sum_l p_l beta_l),

with beta_l = W . h_l, which says how positive state l is by itself. Its form is that of the toy classifier
(:mod:`alignkit.lab.experiments.toy_classifier`), from which the post expects: at first attention is uniform and
hardly moves while beta_l is learned; later the words with a large beta_l draw attention.

Each is followed towards what it becomes: the half-way step of A(p at the end, p at a step), and that of
A(r at the end, r at a step), r_l = (2y - 1) beta_l; and beside them how far attention is from uniform.

``output-relevance``: it drives attention (slides "Understanding Attention Training via Output Relevance").

The relevance of state l for an output o is r_l = W_o . h_l, what the state adds to the logit of o if it is
attended. Of two classes only the difference of their logits counts, so that with one row W for it,
r_l = (2y - 1) W . h_l is the relevance for the right class y. It is learned under uniform attention from counts
alone: *großartig* is only ever seen with one of *great* and *bad*, *Film* with both (:func:`count_tables`). The
claim: r of a network whose attention is fixed to 1/L already orders the words of a sentence as the attention of an
ordinarily trained network does, and as the influence of each word does.

``deceptive-attention``: attention that explains nothing (the same slides).

Network P is trained as usual. Network Q is trained to give P's predictions with attention far from P's:

    minimise mean over sentences of TVD(y_P, y_Q) - lambda KL(alpha_P || alpha_Q),

TVD being the total variation distance, |p_P - p_Q| for two classes. If ordinary training made attention follow
influence because prediction needs that, Q could not have both. The claim is that it can: low loss does not require
such attention; ordinary training arrives at it because it starts from uniform attention and follows relevance.

How similar are similar predictions? The yardstick is P with a new attention, trained on as usual (:data:`ANEW`):
like Q it has P's other weights. Attention is held against that of ordinary networks of other seeds
(:data:`OTHER`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import EncodedText, bitext_lines, half_way_rows
from alignkit.lab.explain.subject import jensen_shannon
from alignkit.metrics.agreement import agreement
from alignkit.metrics.intervals import ratio
from alignkit.metrics.kendall import sum_tau
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores, judge_logits
from alignkit.neural.settings import ClassifierRunSettings, ClassifierSettings, ClassifierTraining
from alignkit.neural.training.classification import (
    ClassificationTask,
    Loss,
    adversarial_loss,
    copy_but_attention,
    label_loss,
)
from alignkit.neural.training.trainer import Trainer
from alignkit.scores import Scores
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.bitext import Bitext
from alignkit.text.labelled import LabelledLines, LabelledText, read_labelled, two_labels
from alignkit.text.tokenization import learn_words, split_words
from alignkit.types import Progress

PLACE_WORDS = frozenset({"in", "on", "at"})  #: prepositions by which the sentences of the sample are labelled
FEWEST = 20  #: labelled sentences


def labelled_lines(path: str, sentences: int = 0, longest: int = 0) -> LabelledLines:
    """Labelled sentences in a fixed random order, in lower case, with punctuation marks as words of their own.

    Args:
        path: as :func:`alignkit.text.labelled.read_labelled`. Empty for the sample, which has no labels: its
            German sentences, labelled by whether the English one has a preposition of place (in, on or at).
        sentences: the number to take; 0 for all.
        longest: sentences with more words are truncated; 0 for no limit.

    Raises:
        InputError: the file cannot be read or is malformed.
        AlignkitError: fewer than two labels, or fewer than 20 sentences with words.
    """
    if path:
        lines = read_labelled(path, lowercase=True)
    else:
        german, english = bitext_lines("", "")
        labels = ["place" if PLACE_WORDS & set(line.split()) else "none" for line in english]
        lines = LabelledLines(german, labels)
    lines = lines.split_punctuation()
    with_words = np.flatnonzero([bool(split_words(text)) for text in lines.texts])
    order = np.random.default_rng([0, 11]).permutation(len(with_words))[: sentences or None]
    lines = lines.take(with_words[order])
    if len(lines.names) < 2 or len(lines) < FEWEST:
        have = f"{len(lines)} with {', '.join(lines.names) or 'none'}"
        wanted = f"at least {FEWEST} sentences and two labels are needed"
        raise AlignkitError(f"{path or 'the sample'}: {wanted}, not {have}")
    return lines.cut(longest) if longest else lines


@dataclass(frozen=True)
class ClassifierPlan(ExperimentSettings):
    """The labelled text, the size of the classifiers, and their training.

    Attributes:
        labelled: a file of lines LABEL TAB TEXT with two labels; the sample if empty.
        sentences: the number to read; 0 for all. Nine in ten are for training, the others are held out.
        minimum: a word seen fewer times is unknown.
        longest: sentences are truncated to this length.
        held: held-out sentences that are scored, at most.
        embedding, hidden: sizes of a word's embedding and of each LSTM direction.
        rate, batch, epochs: learning rate and batch size of Adam, and its passes over the training text.
        seeds: pairs of classifiers; each pair is trained from its own seed.
    """

    least = dict.fromkeys(("sentences", "longest"), 0)
    size: ClassVar[tuple[str, ...]] = ("seeds", "embedding", "hidden", "epochs", "held")
    labelled: str = ""
    sentences: int = 0
    minimum: int = 3
    longest: int = 40
    held: int = 300
    embedding: int = 100
    hidden: int = 64
    rate: float = 2e-3
    batch: int = 32
    epochs: int = 4
    seeds: int = 3


Split = EncodedText[LabelledText]


def read_split(plan: ClassifierPlan) -> Split:
    """The text of a plan.

    Raises:
        AlignkitError: there are not two labels; other errors as :func:`labelled_lines`.
    """
    lines, names = two_labels(labelled_lines(plan.labelled, plan.sentences, plan.longest))
    tokenizer = learn_words(lines.texts, plan.minimum)
    cut = len(lines) * 9 // 10
    training = lines.take(np.arange(cut)).encode(tokenizer, names)
    held = lines.take(np.arange(cut, len(lines))[: plan.held]).encode(tokenizer, names)
    return EncodedText(training, held, tokenizer)


def classifier_settings(
    plan: ClassifierPlan, split: Split, seed: int, epochs: int, attention: str = "feed-forward"
) -> ClassifierRunSettings:
    """The settings of one classifier of a plan."""
    network = ClassifierSettings(
        embedding=plan.embedding, hidden=plan.hidden, attention_hidden=plan.hidden, attention=attention
    )
    steps = epochs * -(-len(split.training) // plan.batch)
    training = ClassifierTraining(batch=plan.batch, learning_rate=plan.rate, steps=steps, seed=seed, keep="best")
    return ClassifierRunSettings(network=network, training=training)


def train_in_memory(
    split: Split,
    settings: ClassifierRunSettings,
    progress: Progress,
    *,
    prepare: Callable[[Classifier], None] | None = None,
    loss: Loss = label_loss,
    look: Callable[[ClassifierAligner], None] | None = None,
) -> Classifier:
    """Trains a classifier on the CPU; the same seed gives the same initial weights and the same batches.

    Args:
        split: held-out text is measured in training, for ``progress``.
        settings: of :func:`classifier_settings`.
        progress: of the steps.
        prepare, loss: as ``prepare`` and ``criterion`` of
            :class:`alignkit.neural.training.classification.ClassificationTask`.
        look: as in :meth:`alignkit.neural.training.trainer.Trainer.run`.

    Returns:
        the classifier after the last step, which does not depend on held-out text.
    """
    task = ClassificationTask(
        split.training, split.valid, settings, split.tokenizer, prepare=prepare, criterion=loss, device="cpu"
    )
    trainer = Trainer(task)
    trainer.run(progress, look)
    return trainer.network.eval()


def sentence_taus(u: Scores, v: Scores) -> np.ndarray:
    """Kendall's tau-b of u and v within each of M sentences, float64 (M,); NaN where it is undefined.

    Args:
        u, v: scores of the same sentences; of a matrix with several rows, the mean of their tau-b.
    """
    sums = sum_tau(u, v)
    return ratio(sums.total, sums.rows)


LINEAR = "general"  #: without decoder state, the query of the score is a learned vector: a_l = alpha . h_l
CURVES = ("attention", "relevance")


@dataclass(frozen=True)
class GatedClassifierSettings(ClassifierPlan):
    """The settings of :class:`ClassifierPlan`, with more epochs: courses are followed to their end."""

    epochs: int = 6


QUICK_GATED_CLASSIFIER = GatedClassifierSettings(embedding=32, hidden=24, epochs=8, held=90, seeds=2)


def distance_from_uniform(alpha: Scores) -> float:
    """Mean over texts of the total variation distance of attention from 1/L: 0 if uniform, at most 1."""
    rows = [matrix[0] for matrix in alpha if matrix.size]
    return float(np.mean([np.abs(row - 1 / len(row)).sum() / 2 for row in rows]))


def relevance_and_attention(split: Split, settings: ClassifierPlan, seed: int, progress: Progress) -> pd.DataFrame:
    """A row per logged step of one network: accuracy, distance from uniform, and both curves."""
    plan = classifier_settings(settings, split, seed, settings.epochs, LINEAR)
    plan = plan.change(training={"schedule": "classification"})
    seen: list[tuple[int, float, Scores, Scores]] = []

    def look(network: ClassifierAligner) -> None:
        alpha, relevance = (classifier_scores(network.network, split.valid, k) for k in ("alpha", "relevance"))
        seen.append((network.step, network.metrics["valid.accuracy"], alpha, relevance))

    train_in_memory(split, plan, progress, look=look)
    rows = []
    for step, accuracy, *scores in seen:
        row = {"seed": seed, "step": step, "accuracy": accuracy, "from uniform": distance_from_uniform(scores[0])}
        for name, last, now in zip(CURVES, seen[-1][2:], scores, strict=True):
            row[name] = agreement(last, now, resamples=0).agreement
        rows.append(row)
    return pd.DataFrame(rows)


def run_gated_classifier(settings: GatedClassifierSettings, progress: Progress = no_progress) -> Result:
    """Follows attention and relevance of every seed."""
    split = read_split(settings)
    part = progress_of_parts(progress, settings.seeds)
    seeds = range(settings.seeds)
    frames = [relevance_and_attention(split, settings, seed, part(f"seed {seed}")) for seed in seeds]
    raw = pd.concat(frames, ignore_index=True)
    halves = half_way_rows(raw, ["seed"], CURVES)
    remarks = (
        "attention, relevance: A(u, v), u being that of the last step and v that of the step; from uniform: total "
        "variation distance of attention from 1/L.",
        "Half-way steps:\n" + halves.round(1).to_string(index=False),
        f"{len(split.training)} texts for training, {len(split.valid)} scored.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, name in enumerate((*CURVES, "from uniform")):
            for place, (_, part) in enumerate(raw.groupby("seed")):
                axes.plot(part.step + 1, part[name], color=f"C{number}", marker=".", label=None if place else name)
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="training step + 1")
        axes.set_ylabel("agreement with the last step; distance from uniform")
        axes.legend()

    table = raw.drop(columns="seed").groupby("step", as_index=False).mean()
    claims = tuple(gated_classifier_claims(raw, halves))
    return Result(table, claims, {"steps": raw.round(5), "halves": halves.round(3)}, draw, remarks)


def gated_classifier_claims(raw: pd.DataFrame, halves: pd.DataFrame) -> Iterator[Claim]:
    """The claims, over seeds."""
    known = halves[np.isfinite(halves[list(CURVES)]).all(axis=1)]
    learned = f"mean over seeds ({len(known)} of {len(halves)} learn both)"
    statistic = f"log2 of half-way steps, attention over relevance, {learned}"
    later = averaged(np.log2(known.attention / known.relevance))
    yield claim("Relevance is learned first, attention after", statistic, *later, above=0.0)
    shares = []
    for half, (_, part) in zip(halves.relevance, raw.groupby("seed"), strict=True):
        if np.isfinite(half):
            far = part["from uniform"].to_numpy()
            shares.append((np.interp(half, part.step, far) - far[0]) / (far[-1] - far[0]))
    text = "When relevance is half-way, attention has hardly left uniform: less than half of its final distance"
    yield claim(text, "share of the final distance from uniform, mean over seeds", *averaged(shares), below=0.5)


EXAMPLE = (("dieser film ist großartig", "this movie is great"), ("dieser film ist schlecht", "this movie is bad"))
INPUTS = ("dieser", "film", "ist", "großartig", "schlecht")
OUTPUTS = ("this", "movie", "is", "great", "bad")
#: (u, v): Kendall's tau and agreement of v with u, by the names of :func:`held_out_scores`
PAIRS = (
    ("r uniform", "alpha"),
    ("|r| uniform", "alpha"),
    ("r uniform", "influence"),
    ("alpha", "influence"),
    ("r uniform", "r"),
)


QUICK_OUTPUT_RELEVANCE = ClassifierPlan(embedding=32, hidden=24, epochs=8, held=90, seeds=2)


def count_tables() -> pd.DataFrame:
    """The 5 x 5 co-occurrence counts of the example, a row per input word and a column per output word."""
    bitext = Bitext.from_sentences(*([line.split() for line in side] for side in zip(*EXAMPLE, strict=True)))
    words = (list(side.vocabulary.tokens) for side in (bitext.source, bitext.target))
    table = pd.DataFrame(cooccurrence(bitext, "one").to_dense(), *words)
    return table.loc[list(INPUTS), list(OUTPUTS)].rename_axis("input").reset_index()


def held_out_scores(usual: Classifier, uniform: Classifier, split: Split) -> dict[str, Scores]:
    """Scores of the words of the held-out text, from the usual network and from that with uniform attention."""
    alpha, r, influence = (classifier_scores(usual, split.valid, kind) for kind in ("alpha", "relevance", "loo"))
    plain = classifier_scores(uniform, split.valid, "relevance")
    sizes = Scores(np.abs(plain.values), plain.offsets, plain.shapes)
    return {"alpha": alpha, "r": r, "r uniform": plain, "|r| uniform": sizes, "influence": influence}


def per_sentence(raw: pd.DataFrame, u: str, v: str) -> np.ndarray:
    """Kendall's tau of each sentence, mean over the seeds; intervals are over sentences."""
    some = raw[(raw.u == u) & (raw.v == v)]
    return some.groupby("sentence").tau.mean().to_numpy()


def run_output_relevance(settings: ClassifierPlan, progress: Progress = no_progress) -> Result:
    """Trains a classifier with and one without attention for every seed, and compares the scores of words."""
    split = read_split(settings)
    part = progress_of_parts(progress, 2 * settings.seeds)
    frames, tables, accuracies = [], [], []
    for seed in range(settings.seeds):
        networks = []
        for number, attention in ((seed, "feed-forward"), (seed + 1000, "uniform")):
            plan = classifier_settings(settings, split, number, settings.epochs, attention)
            networks.append(train_in_memory(split, plan, part(attention)))
        logits = [classifier_logits(network, split.valid) for network in networks]
        accuracies.append([judge_logits(z, split.valid.labels)[1] for z in logits])
        scores = held_out_scores(networks[0], networks[1], split)
        for u, v in PAIRS:
            taus = sentence_taus(scores[u], scores[v])
            frames.append(pd.DataFrame({"seed": seed, "sentence": range(len(taus)), "u": u, "v": v, "tau": taus}))
            shared = agreement(scores[u], scores[v], resamples=0)
            tables.append({"u": u, "v": v, "agreement": shared.agreement, "chance": shared.chance})
    raw = pd.concat(frames, ignore_index=True)
    mean_taus = raw.groupby(["u", "v"], sort=False).tau.mean().rename("tau")
    table = pd.DataFrame(tables).groupby(["u", "v"], sort=False).mean().join(mean_taus).reset_index()
    counts = count_tables()
    with_attention, without = np.mean(accuracies, axis=0)
    remarks = (
        f"{len(split.training)} sentences for training, {len(split.valid)} scored; accuracy {with_attention:.3f} "
        f"with attention, {without:.3f} with uniform attention.",
        "r uniform: relevance in the network with uniform attention; all other scores are of the network with "
        "attention, trained from another seed. tau: mean of Kendall's tau-b within a sentence. agreement: of the "
        "top 5 %.",
        "Counts of the example:\n" + counts.to_string(index=False),
    )
    rows = {"sentences": raw.round(5), "counts": counts}
    claims = tuple(output_relevance_claims(raw, counts))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        names = [f"{u}\nand {v}" for u, v in PAIRS]
        values = [per_sentence(raw, u, v) for u, v in PAIRS]
        axes.boxplot([x[~np.isnan(x)] for x in values], tick_labels=names, showmeans=True, whis=(5, 95), sym="")
        axes.axhline(0, color="k", lw=0.8)
        axes.set_ylabel("Kendall's tau within a sentence")

    return Result(table, claims, rows, draw, remarks)


def output_relevance_claims(raw: pd.DataFrame, counts: pd.DataFrame) -> Iterator[Claim]:
    """The claims, from a row per seed, sentence and pair of scores, and the counts of the example."""
    odds = counts.set_index("input").eval("great - bad")
    exact = float(abs(odds["film"]) + abs(odds["großartig"] - 1) + abs(odds["schlecht"] + 1))
    text = "In the example, only the words that tell the class co-occur more often with one output"
    statistic = "deviation of the count differences (great - bad) from 0, 1 and -1"
    yield claim(text, statistic, exact, below=1e-9)
    learned = "Relevance learned under uniform attention"
    texts = {
        ("r uniform", "alpha"): f"{learned} correlates with the attention of the usual network",
        ("r uniform", "influence"): "... and with the influence of each word on the usual network (leave-one-out)",
        ("alpha", "influence"): "Attention itself correlates with influence",
    }
    for (u, v), text in texts.items():
        statistic = f"Kendall's tau of {u} and {v}, mean over sentences"
        yield claim(text, statistic, *averaged(per_sentence(raw, u, v)), above=0.0)


OTHER = "other seed"  #: an ordinary network of another seed, compared with P as a Q is
ANEW = "new attention"  #: P with an attention that is initialised anew, trained on as usual
HARMLESS = 0.03  #: an accuracy that is lower by up to this is unharmed


@dataclass(frozen=True)
class DeceptiveAttentionSettings(ClassifierPlan):
    """The settings of the classifiers, and of Q.

    Attributes (others are those of :class:`ClassifierPlan`):
        weights: lambda, rising; the first, 0, makes Q a plain copy.
        copy_epochs: epochs of Q, which learns from P's outputs on the training text.
        fresh: initialise all of Q anew, not only its attention. TVD alone is a poor teacher of a fresh network
            (its gradient vanishes where a prediction is confident and wrong); and Q would never leave P's own
            attention, which is a stationary point of KL.
    """

    least = ClassifierPlan.least | {"weights": 0}
    size = ("seeds", "embedding", "hidden", "epochs", "copy_epochs", "held")
    weights: tuple[float, ...] = (0.0, 0.001, 0.002, 0.004, 0.007, 0.01, 0.03)
    copy_epochs: int = 6
    fresh: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds < 2:
            raise AlignkitError("seeds: at least two are needed, to compare networks of different seeds")
        if len(self.weights) < 2 or self.weights[0] or list(self.weights) != sorted(self.weights):
            raise AlignkitError("weights: a plain copy's lambda (0) and at least one more are needed, rising")


QUICK_DECEPTIVE_ATTENTION = DeceptiveAttentionSettings(
    embedding=32, hidden=24, epochs=8, copy_epochs=6, held=90, seeds=2, weights=(0.0, 0.03, 0.1)
)


class Measured(NamedTuple):
    """For M sentences log-odds of the second label (M,), attention, and the influence of each word."""

    logits: np.ndarray
    alpha: Scores
    influence: Scores


def _measure(network: Classifier, text: LabelledText) -> Measured:
    alpha, influence = (classifier_scores(network, text, kind) for kind in ("alpha", "loo"))
    return Measured(classifier_logits(network, text), alpha, influence)


def _compare(name: str, seed: int, text: LabelledText, now: Measured, own: Measured) -> pd.DataFrame:
    """A row per sentence: a network's prediction and attention against P's and against influence."""
    return pd.DataFrame(
        {
            "lambda": name,
            "seed": seed,
            "sentence": range(len(text)),
            "right": ((now.logits > 0) == (text.labels == 1)).astype(float),
            "same": ((now.logits > 0) == (own.logits > 0)).astype(float),
            "TVD": np.abs(expit(own.logits) - expit(now.logits)),
            "JSD": [jensen_shannon(p[0], q[0]) for p, q in zip(own.alpha, now.alpha, strict=True)],
            "tau influence": sentence_taus(now.alpha, now.influence),
            "tau P": sentence_taus(now.alpha, own.alpha),
        }
    )


def run_deceptive_attention(settings: DeceptiveAttentionSettings, progress: Progress = no_progress) -> Result:
    """Trains P, and a Q for every lambda, for every seed; compares them on held-out sentences."""
    split = read_split(settings)
    held = split.valid
    part = progress_of_parts(progress, settings.seeds * (2 + len(settings.weights)))
    usual = [classifier_settings(settings, split, seed, settings.epochs) for seed in range(settings.seeds)]
    trained = [train_in_memory(split, each, part("P")) for each in usual]
    own = [_measure(P, held) for P in trained]
    frames = [_compare("P", seed, held, each, each) for seed, each in enumerate(own)]
    for seed, other in permutations(range(settings.seeds), 2):
        frames.append(_compare(OTHER, seed, held, own[other], own[seed]))
    for seed, P in enumerate(trained):
        teacher = classifier_logits(P, split.training), classifier_scores(P, split.training, "alpha")
        copying = classifier_settings(settings, split, seed + 1000, settings.copy_epochs)
        objectives = {f"{weight:g}": adversarial_loss(*teacher, weight) for weight in settings.weights}
        for name, loss in ({ANEW: label_loss} | objectives).items():
            prepare = None if settings.fresh and loss is not label_loss else copy_but_attention(P)
            Q = train_in_memory(split, copying, part(name), prepare=prepare, loss=loss)
            frames.append(_compare(name, seed, held, _measure(Q, held), own[seed]))
    raw = pd.concat(frames, ignore_index=True)
    table = raw.drop(columns=["seed", "sentence"]).groupby("lambda", sort=False).mean().reset_index()
    remarks = (
        "P: the usual network; other seed: another usual network, compared with P; new attention: P with such, "
        "trained on as usual. right: accuracy; same: share of P's predictions kept; TVD and JSD (nats, at most "
        "0.693): distances from P's prediction and attention; tau influence: Kendall's tau of the network's own "
        "attention and leave-one-out influence.",
        f"{len(split.training)} sentences for training, {len(split.valid)} scored.",
    )

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        part = table[~table["lambda"].isin(["P", OTHER, ANEW])]
        for column in ("right", "same", "TVD"):
            (line,) = left.plot(part["lambda"], part[column], marker="o", label=column)
            other = table[table["lambda"] == OTHER][column].iloc[0]
            left.axhline(other, color=line.get_color(), ls=":", lw=1, label=f"{column}, other seed")
        left.set_ylim(0, 1.02)
        for column, label in (("JSD", "JSD to P's attention"), ("tau influence", "tau, attention and influence")):
            right.plot(part["lambda"], part[column], marker="o", label=label)
        own = table[table["lambda"] == "P"]["tau influence"].iloc[0]
        right.axhline(own, color="C1", ls="--", lw=1, label="the same tau of P")
        right.axhline(0, color="k", lw=0.8)
        for axes in (left, right):
            axes.set_xlabel("lambda")
            axes.legend()

    return Result(table, tuple(deceptive_attention_claims(raw)), {"sentences": raw.round(5)}, draw, remarks)


def _per_seed(raw: pd.DataFrame, name: str, column: str) -> pd.Series:
    return raw[raw["lambda"] == name].groupby("seed")[column].mean()


def deceptive_attention_claims(raw: pd.DataFrame) -> Iterator[Claim]:
    """The claims at every lambda above 0, from a row per network and sentence; intervals are over seeds.

    At each: similar predictions, unharmed accuracy, and attention that is neither P's nor follows influence.
    """

    def against(other: str, column: str) -> tuple[float, tuple[float, float]]:
        return averaged(_per_seed(raw, name, column) - _per_seed(raw, other, column))

    text = "The usual network's attention correlates with influence"
    statistic = "Kendall's tau of attention and influence, P, mean over sentences and seeds"
    yield claim(text, statistic, *averaged(_per_seed(raw, "P", "tau influence")), above=0.0)
    for name in raw["lambda"].unique():
        if name in ("P", OTHER, ANEW) or float(name) == 0:
            continue
        text = f"At lambda {name}, Q's predictions are similar to P's"
        statistic = "share of P's predictions, Q minus P with a new attention"
        more = "it shares more of them than P does with a new attention, trained on as usual"
        yield claim(f"{text}: {more}", statistic, *against(ANEW, "same"), above=0.0)
        text = f"... and its accuracy is unharmed (lower by less than {HARMLESS})"
        yield claim(text, "accuracy of Q minus that of P", *against("P", "right"), above=-HARMLESS)
        text = "... with attention further from P's than another usual network's is"
        statistic = "JSD from P's attention, Q minus networks of other seeds, nats"
        yield claim(text, statistic, *against(OTHER, "JSD"), above=0.0)
        statistic = "Kendall's tau of Q's attention and its influence, mean over sentences and seeds"
        taus = averaged(_per_seed(raw, name, "tau influence"))
        yield claim("... and anti-correlated with influence", statistic, *taus, below=0.0)
