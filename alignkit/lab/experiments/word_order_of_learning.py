"""``word-order-of-learning``: which words attention finds first, predicted from the text alone (ours).

If attention is learned from lexical knowledge, and that from words that occur together, then the text says when
attention finds each word, before any network is trained: words that occur with few others early, the others late.

A target word is *found* at the first logged step from which on at least half of its occurrences in held-out text
get the attention that the trained network gives them: the same source token is first. Networks that have not
learned to attend are left out, since their last attention means nothing. Two predictors, each one number
per word y, are entropies (nats) of a distribution over source words x, from expected counts n(x, y) on the
training text:

- ``co-occurrence``: n(x, y) = C[x, y], each occurrence of y spread evenly over its sentence;
- ``IBM 1``: the same spread by the posteriors of IBM Model 1 after EM.

``frequency``, minus the logarithm of y's count, is the plain alternative: frequent words are learned first anyway.
How far any prediction can go is bounded by how far another seed agrees about the order (``another seed``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.stats import spearmanr

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import EncodedText, NetworkPlan, take_pairs, train_network
from alignkit.neural.aligners import NeuralAligner
from alignkit.scores import Scores, flat_offsets, tokens_of_elements
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import UNK, encode_bitext, learn_words
from alignkit.types import Progress

PREDICTORS = ("co-occurrence", "IBM 1", "frequency")
OTHER_SEED = "another seed"


@dataclass(frozen=True)
class WordOrderOfLearningSettings(NetworkPlan):
    """The texts and the networks; all learn words, not subwords.

    Attributes (others are those of :class:`NetworkPlan`, whose ``pairs`` are not used):
        sizes: training pairs of each text; one size may exceed the text, which is then all of it.
        seeds: networks for each size.
        steps: of the training, whatever the size; 0 for ``epochs``.
        learned: attention counts as learned if for this share of held-out tokens it is first at the same source
            token as IBM 1's posterior (a few per cent by chance).
        scored: held-out pairs on which words are found; 0 for all.
        minimum: occurrences of a word there, without which it is left out, and in the training text, without which
            it is unknown.
        iterations: of IBM 1, without NULL.
        warmup: 0, since fixed attention at the start would decide when attention is learned.
    """

    least = NetworkPlan.least | {"steps": 0, "scored": 0, "learned": 0}
    size = ("sizes", "seeds", "scored", "steps", "epochs", "batch")
    sizes: tuple[int, ...] = (8000, 16000, 29000)
    seeds: int = 3
    steps: int = 1500
    learned: float = 0.25
    scored: int = 500
    minimum: int = 3
    iterations: int = 5
    epochs: int = 10
    batch: int = 32
    warmup: int = 0


# So small a text teaches attention only after some epochs without it.
QUICK_WORD_ORDER_OF_LEARNING = WordOrderOfLearningSettings(
    sizes=(600, 940), seeds=2, scored=0, steps=0, epochs=12, warmup=3
)


def alignment_entropy(bitext: Bitext, scores: Scores | None = None) -> np.ndarray:
    """Entropy, in nats, of the source words that each target word is counted with: float64 (V_tgt,).

    Args:
        bitext: M pairs.
        scores: how each occurrence of a target word is spread over its source sentence; None for evenly.

    Returns:
        NaN for a word that does not occur with any other.
    """
    shape = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    sizes = np.diff(flat_offsets(bitext.shapes))
    counts = 1 / np.repeat(bitext.source.lengths, sizes) if scores is None else scores.values
    words = tokens_of_elements(bitext, np.arange(sizes.sum()))
    table = coo_matrix((counts.astype(np.float64), words), shape).tocsc()
    sums = np.asarray(table.sum(0)).ravel()
    share = table.data / np.repeat(np.where(sums > 0, sums, 1), np.diff(table.indptr))
    terms = -share * np.log(np.where(share > 0, share, 1.0))
    owner = np.repeat(np.arange(shape[1]), np.diff(table.indptr))
    return np.where(sums > 0, np.bincount(owner, terms, shape[1]), np.nan)


def found_steps(steps: list[int], first: np.ndarray, words: np.ndarray, minimum: int) -> dict[int, int]:
    """Word -> the first step from which on at least half of its tokens get the attention of the last step.

    Args:
        steps: rising.
        first: int (steps, tokens), the source token that is first by attention.
        words: int (tokens,), the target words.
        minimum: of a word's tokens.
    """
    by_word = pd.DataFrame((first == first[-1]).T).groupby(words)
    shares = by_word.mean()[by_word.size() >= minimum]
    # The number of steps up to the last one of which this is not so; that of the last step is 1.
    late = ((shares < 0.5) * np.arange(1, len(steps) + 1)).max(axis=1)
    return {int(word): steps[number] for word, number in late.items()}


def rank_correlation(u: np.ndarray, v: np.ndarray) -> float:
    """Spearman's rank correlation; NaN where it is undefined."""
    return float(spearmanr(u, v).statistic) if len(u) > 2 and np.ptp(u) and np.ptp(v) else float("nan")


def learn_and_find(
    text: LinePairs, held: LinePairs, settings: WordOrderOfLearningSettings, progress: Progress = no_progress
) -> tuple[pd.DataFrame, float]:
    """Trains one network; a row per word that occurs often enough: word, step, and the predictors.

    Returns:
        the rows, and the share of held-out tokens for which attention is first where IBM 1's posterior is.
    """
    tokenizer = learn_words([*text.source, *text.target], settings.minimum)
    training, valid = (encode_bitext(tokenizer, part.source, part.target) for part in (text, held))
    pairs = take_pairs(valid, settings.scored)
    steps: list[int] = []
    first: list[np.ndarray] = []

    def look(network: NeuralAligner) -> None:
        steps.append(network.step)
        first.append(np.concatenate([matrix.argmax(1) for matrix in network.score(pairs, "alpha")]))

    plan = settings.settings().change(text={"tokens": "words"})
    if settings.steps:
        epochs = -(-settings.steps // -(-len(training) // plan.training.batch))
        plan = plan.change(training={"steps": settings.steps, "epochs": epochs})
    train_network(plan, EncodedText(training, valid, tokenizer), progress, look, "cpu")
    step_of = found_steps(steps, np.stack(first), pairs.target.tokens, settings.minimum)
    step_of.pop(UNK, None)
    model = fit_ibm1(training, iterations=settings.iterations, null=False)
    posterior = np.concatenate([matrix.argmax(1) for matrix in model.score(pairs, "alpha")])
    share = float((first[-1] == posterior).mean())
    counts = np.bincount(training.target.tokens, minlength=len(tokenizer.vocabulary))
    words = np.array(sorted(step_of))
    with np.errstate(divide="ignore"):
        values = {
            "co-occurrence": alignment_entropy(training)[words],
            "IBM 1": alignment_entropy(training, model.score(training, "alpha"))[words],
            "frequency": -np.log(counts[words]),
        }
    names = [tokenizer.vocabulary[int(word)] for word in words]
    table = pd.DataFrame({"word": names, "step": [step_of[int(word)] for word in words], **values})
    return table[np.isfinite(table[list(PREDICTORS)]).all(axis=1)].reset_index(drop=True), share


def correlations(raw: pd.DataFrame) -> pd.DataFrame:
    """A row per network: the rank correlation of when words are found with every predictor and every fit."""
    parts = dict(list(raw.groupby(["size", "seed"], sort=False)))
    # The rank of each word by each predictor, (words, predictors), and by when it is found, as shares.
    ranks = {k: own[list(PREDICTORS)].rank(pct=True).to_numpy() for k, own in parts.items()}
    orders = {k: own.step.rank(pct=True) for k, own in parts.items()}

    def fitted(held: tuple, training: list[tuple]) -> float:
        """The rank correlation of a network's steps with a linear fit of ranks made on other networks."""
        if not training:
            return float("nan")
        x, y = (np.concatenate([values[k] for k in training]) for values in (ranks, orders))
        weights = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
        return rank_correlation(ranks[held] @ weights[:-1], parts[held].step)

    rows = []
    for (size, seed), own in parts.items():
        row: dict[str, float] = {"size": size, "seed": seed}
        row |= {name: rank_correlation(own[name], own.step) for name in PREDICTORS}
        seeds = [(n, s) for n, s in parts if n == size and s != seed]
        row["fitted, other seeds"] = fitted((size, seed), seeds)
        row["fitted, other sizes"] = fitted((size, seed), [(n, s) for n, s in parts if n != size])
        both = [own.merge(parts[other], on="word", suffixes=("", "_other")) for other in seeds]
        shared = [rank_correlation(each.step, each.step_other) for each in both]
        row[OTHER_SEED] = float(np.mean(shared)) if shared else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def run_word_order_of_learning(settings: WordOrderOfLearningSettings, progress: Progress = no_progress) -> Result:
    """Trains networks on texts of several sizes, and compares when words are found with what the text predicts."""
    lines, held = settings.lines()
    if sum(size >= len(lines.source) for size in settings.sizes) > 1:
        remedy = "give a larger one or smaller sizes"
        raise AlignkitError(f"sizes: the text has only {len(lines.source)} pairs; {remedy}")
    part = progress_of_parts(progress, len(settings.sizes) * settings.seeds)
    frames, learned = [], []
    for size, seed in product(settings.sizes, range(settings.seeds)):
        text = LinePairs(lines.source[:size], lines.target[:size])
        own = replace(settings, seed=settings.seed + seed)
        frame, share = learn_and_find(text, held, own, part(f"{size} pairs, seed {seed}"))
        learned.append({"size": size, "seed": seed, "share": share})
        if share >= settings.learned:
            frames.append(frame.assign(size=size, seed=seed))
    if not frames:
        shares = ", ".join(f"{row['share']:.2f}" for row in learned)
        known = f"shares {shares}, below {settings.learned}"
        raise AlignkitError(f"no network has learned attention ({known}): give more pairs or steps")
    raw = pd.concat(frames, ignore_index=True)
    by_network = correlations(raw)
    table = by_network.drop(columns=["seed"]).groupby("size", as_index=False).mean()
    words = raw.groupby(["size", "seed"]).size()
    remarks = (
        f"{int(words.min())} to {int(words.max())} words per network. Spearman's rank correlation of each "
        "predictor with the step at which a word is found. fitted, other seeds and other sizes: of a linear fit "
        "of the predictors' ranks, made on the other seeds of the size, and on the other sizes.",
        f"{len(frames)} of {len(learned)} networks have learned attention (it is first at the same source token "
        f"as IBM 1 for at least {100 * settings.learned:g} % of the tokens) and are in the table.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        names = [*PREDICTORS, "fitted, other seeds", "fitted, other sizes", OTHER_SEED]
        for number, (size, part) in enumerate(by_network.groupby("size")):
            for place, name in enumerate(names):
                label = f"{size} pairs" if not place else None
                at = np.full(len(part), place + 0.2 * (number - by_network["size"].nunique() / 2))
                axes.plot(at, part[name], "o", color=f"C{number}", label=label)
        axes.axhline(0, color="k", lw=0.8)
        axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
        axes.set_ylabel("rank correlation with the step of finding")
        axes.legend()

    claims = tuple(word_order_of_learning_claims(by_network))
    rows = {"words": raw, "correlations": by_network, "learned": pd.DataFrame(learned)}
    return Result(table, claims, {name: each.round(5) for name, each in rows.items()}, draw, remarks)


def word_order_of_learning_claims(by_network: pd.DataFrame) -> Iterator[Claim]:
    """The claims, from a row per network; intervals are over networks."""
    over = f"mean of {len(by_network)} networks"
    texts = {
        "co-occurrence": "Attention finds words with a low co-occurrence entropy earlier",
        "IBM 1": "Attention finds words with a low IBM 1 entropy earlier",
        "fitted, other seeds": "What is fitted on other seeds predicts the order of a new one",
        "fitted, other sizes": "What is fitted on texts of other sizes predicts the order on a new one",
    }
    for name, text in texts.items():
        yield claim(text, f"rank correlation with the step, {over}", *averaged(by_network[name]), above=0.0)
    text = "Networks of other seeds find words in the same order"
    yield claim(text, f"rank correlation of their steps, {over}", *averaged(by_network[OTHER_SEED]), above=0.0)
    # A correlation below 0 predicts nothing, so that it counts as 0.
    more = by_network["IBM 1"] - by_network["frequency"].clip(lower=0)
    text = "IBM 1 entropy predicts it better than frequency does"
    statistic = f"rank correlation minus that of frequency, or 0 if that is below 0, {over}"
    yield claim(text, statistic, *averaged(more), above=0.0)
