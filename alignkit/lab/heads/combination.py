"""Several heads of a model of transformers as an aligner: a sparse logistic regression of links on attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from alignkit.aligner import Aligner
from alignkit.errors import AlignkitError
from alignkit.lab.interop.heads import WEIGHTS, AttentionHeads
from alignkit.links.from_scores import are_linked, linked_above, links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import count_links
from alignkit.scores import Scores
from alignkit.support.files import loaded, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike

KIND, VERSION = "alignkit.heads", 1
#: The most heads and shifts that the regression sees, those with the largest weight on links.
MOST_HEADS = 32
#: Penalties of a unit of weight that are tried.
PENALTIES = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True, eq=False, repr=False)
class HeadCombination(Aligner):
    """Heads of a model of transformers, which reads every text that is aligned.

    Attributes:
        made: the model and how it reads, as :attr:`AttentionHeads.made`.
        heads: (layer, head, shift) of each head.
        weights: float64 (K,), of their attention, at least 0.
        bias: of the logit.
        threshold: links have at least this probability.
    """

    made: Mapping[str, str]
    heads: tuple[tuple[int, int, int], ...]
    weights: np.ndarray
    bias: float
    threshold: float = 0.5
    name = "heads"
    depends_on_batch = True
    kinds = ("alpha",)
    descriptions: ClassVar[Mapping[str, tuple[str, str]]] = {
        "alpha": ("Attention heads", "The probability of each link by the attention of several heads.")
    }

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha: the probability of each link; a word can have several."""
        self.check_kind(kind)
        sides = bitext.source, bitext.target
        source, target = ([" ".join(side.words(m)) for m in range(len(side))] for side in sides)
        layers = sorted({layer for layer, _, _ in self.heads})
        return self.combined(_attention(self.made, source, target, layers), bitext.shapes)

    def combined(self, heads: AttentionHeads, shapes: np.ndarray) -> Scores:
        """alpha of M pairs whose attention is known already.

        Args:
            heads: of the pairs, with all heads of this aligner.
            shapes: int32 (M, 2), of the pairs in words.

        Raises:
            AlignkitError: a head is missing.
        """
        layout = Scores.zeros(shapes)
        logits = np.full(len(layout.values), self.bias)
        parts = heads.on_words, heads.shifted.on_words
        for (layer, head, shift), weight in zip(self.heads, self.weights, strict=True):
            if (layer, head) not in heads.heads:
                raise AlignkitError(f"the model has no head {layer}.{head}; it has {heads.described}")
            logits += weight * parts[shift].values[heads.heads.index((layer, head))]
        return Scores(_logistic(logits).astype(np.float32), layout.offsets, layout.shapes)

    def links_and_probabilities(self, bitext: Bitext) -> tuple[Links, np.ndarray]:
        """Links whose probability reaches the threshold, and their probabilities, float64 (K,)."""
        return linked_above(self.score(bitext), self.threshold)

    def links(self, bitext: Bitext) -> Links:
        """Links whose probability reaches the threshold."""
        return links_above(self.score(bitext), self.threshold)

    def save(self, path: PathLike) -> None:
        arrays = {"heads": np.array(self.heads, np.int32).reshape(-1, 3), "weights": self.weights}
        header = {"bias": self.bias, "threshold": self.threshold, "made": dict(self.made), **self.about_text}
        save_arrays(path, KIND, VERSION, arrays, header)


def load_combination(path: PathLike) -> HeadCombination:
    """Read what :meth:`HeadCombination.save` wrote; raises InputError if it is damaged or something else."""
    with loaded(path, KIND, VERSION) as (fields, header):
        heads, weights = fields.get("heads", np.int32, 2), fields.get("weights", np.float64)
        fitting = len(weights) and heads.shape == (len(weights), 3) and (heads >= 0).all()
        if not fitting or not np.isfinite(weights).all():
            raise ValueError("the heads do not fit their weights")
        made = header.part("made")
        facts = {name: made.text(name) for name in ("model", *made)}
        rows = tuple((int(layer), int(head), int(shift > 0)) for layer, head, shift in heads)
        return HeadCombination(facts, rows, weights, header.number("bias"), header.number("threshold", 0, 1))


def fit_combination(heads: AttentionHeads, bitext: Bitext, gold: GoldLinks) -> tuple[HeadCombination, float]:
    """Learn from links of M pairs which heads say of two words that they are linked.

    A logistic regression whose weights are at least 0, with a penalty on their sum, so that most are 0. The
    penalty is the one whose links err least when each half of the pairs, odd and even, is linked by what the other
    teaches.

    Args:
        heads: of the pairs, with ``made``.
        bitext: their whitespace words.
        gold: their links, by people or by an aligner.

    Returns:
        the aligner, and its AER when each half is linked by what the other teaches.

    Raises:
        AlignkitError: there are no links to learn from, no head has learned them, or the attention does not say
            which model made it.
    """
    if "model" not in heads.made:
        raise AlignkitError("the attention file does not name its model; write it with `alignkit attention`")
    rows = [(*head, shift) for shift in (0, 1) for head in heads.heads]
    values = np.concatenate([heads.on_words.values, heads.shifted.on_words.values])
    linked = are_linked(gold.possible, bitext.shapes)
    odd = np.repeat(np.arange(len(bitext)) % 2 == 1, bitext.shapes.astype(np.int64).prod(axis=1))
    if not (linked[odd].any() and linked[~odd].any()):
        raise AlignkitError("heads are combined by links of at least two sentence pairs, odd and even")
    # How far the values of each head go with being linked, in standard deviations.
    deviations = np.maximum(values.std(axis=1, dtype=np.float64), 1e-12)
    correlation = np.asarray(values @ (linked - linked.mean()) / deviations)
    kept = np.argsort(-correlation, kind="stable")[:MOST_HEADS]
    values, tried = values[kept].astype(np.float64), []
    for penalty in PENALTIES:
        alpha = Scores.zeros(bitext.shapes)
        for half in (odd, ~odd):
            weights, bias = _regression(values[:, half], linked[half], penalty)
            alpha.values[~half] = _logistic(weights @ values[:, ~half] + bias)
        links = links_above(alpha, HeadCombination.threshold)
        tried.append((count_links(gold, links).total().aer, penalty))
    error, penalty = min(tried)
    weights, bias = _regression(values, linked, penalty)
    used = np.flatnonzero(weights > 0)
    if not len(used):
        raise AlignkitError("no head gives linked words more attention than others, so there is none to combine")
    return HeadCombination(dict(heads.made), tuple(rows[kept[k]] for k in used), weights[used], bias), error


def _logistic(logits: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)))


def _regression(values: np.ndarray, linked: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """Weights (K,) of at least 0 and the bias of a logistic regression on values (K, N)."""
    from scipy.optimize import minimize

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        logits = theta[:-1] @ values + theta[-1]
        wrong = _logistic(logits) - linked
        value = (np.logaddexp(0, logits) - linked * logits).mean() + penalty * theta[:-1].sum()
        return float(value), np.append(values @ wrong / len(linked) + penalty, wrong.mean())

    bounds = [(0, None)] * len(values) + [(None, None)]
    found = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[:-1], float(found[-1])


@lru_cache(1)
def _loaded(model: str, source_language: str | None, target_language: str | None) -> Any:
    from alignkit.lab.heads.hugging_face import load_pretrained

    return load_pretrained(model, source_language=source_language, target_language=target_language)


def _attention(made: Mapping[str, str], source: list[str], target: list[str], layers: list[int]) -> AttentionHeads:
    """The attention of a model, made as it was for the text that was learned from."""
    from alignkit.lab.heads.hugging_face import cross_attention, translation_attention

    model, tokenizer = _loaded(made["model"], made.get("source_language"), made.get("target_language"))
    common: dict[str, Any] = {"quantity": made.get("quantity", WEIGHTS), "layers": layers}
    if "template" in made:
        return translation_attention(model, tokenizer, source, target, template=made["template"], **common)
    return cross_attention(model, tokenizer, source, target, prefix=made.get("prefix", ""), **common)
