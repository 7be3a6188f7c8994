"""The self-attention of a transformer's encoder: what its heads do, and which input tokens reach its states.

**Roles**: for every role, a mask says which tokens j a token i would attend to (Voita et al. 2019; Clark et al.
2019). A head's score is the share of tokens whose largest weight falls on such a token, beside the share that a
head would reach that picks one at random. Tokens without any such j are left out.

**Rollout and flow** (Abnar and Zuidema 2020) see many layers as one. Each layer's weights, averaged over heads,
are mixed with the residual connection in equal shares, (A + I) / 2, and give the edges between its tokens and
those of the layer below. Rollout multiplies the layers: the share of all paths from a token of the last layer
that end at an input token. Flow is the most that can flow between the two if each edge carries at most its
weight.

**Effective attention** (Brunner et al. 2020) is the part of attention weights that changes what a head gives. A
head's output is A T, where A (rows, L) holds its weights and T (L, E) what each token would give alone.
Whatever of A lies in the left null space of T vanishes in the product, so that other weights have the same
effect: where L is larger than the rank of T, which is at most the size of a head, weights cannot be identified
from the output. The effective attention is A less that part. Its rows need not sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, check_list
from alignkit.metrics.intervals import percentile_interval, ratio, resampled_sums
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.batching import DeviceCorpus
from alignkit.neural.devices import device_of, evaluation_mode
from alignkit.neural.networks.transformer import Transformer
from alignkit.scores import Scores, merge_to_words, token_words
from alignkit.text.bitext import Corpus
from alignkit.text.subword_marks import without_mark
from alignkit.text.tokenization import encode_lines, split_words
from alignkit.types import Progress

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class TokenFacts:
    """What roles depend on, for a sentence of L tokens.

    Attributes:
        words: int (L,), the word of each token; -1 for the sentence's begin and end.
        counts: (L,), how often each token is seen in the text.
        is_punctuation: bool (L,).
    """

    words: np.ndarray
    counts: np.ndarray
    is_punctuation: np.ndarray


def _shifted(step: int) -> Callable[[TokenFacts], np.ndarray]:
    return lambda facts: np.eye(len(facts.words), k=step, dtype=bool)


def _same_word(facts: TokenFacts) -> np.ndarray:
    words = facts.words
    same: np.ndarray = (words[:, None] == words) & (words >= 0)
    return same & ~np.eye(len(words), dtype=bool)


def _rarest(facts: TokenFacts) -> np.ndarray:
    inside = facts.words >= 0
    least = facts.counts[inside].min() if inside.any() else -1
    return _columns(inside & (facts.counts == least))


def _columns(chosen: np.ndarray) -> np.ndarray:
    """The mask in which every token attends to the chosen ones."""
    return np.tile(chosen, (len(chosen), 1))


#: role -> bool (L, L), the tokens j that token i attends to
ROLES: dict[str, Callable[[TokenFacts], np.ndarray]] = {
    "previous token": _shifted(-1),
    "next token": _shifted(1),
    "itself": _shifted(0),
    "same word": _same_word,
    "rarest word": _rarest,
    "punctuation": lambda facts: _columns(facts.is_punctuation),
    "begin or end": lambda facts: _columns(facts.words < 0),
}


class RoleCounts:
    """Sums over sentences, from which the table of roles is made."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []

    def add(self, weights: np.ndarray, facts: TokenFacts) -> None:
        """Count a sentence.

        Args:
            weights: (layers, K, L, L).
            facts: of its tokens.
        """
        best, length = weights.argmax(3), weights.shape[2]
        place = np.arange(length)
        found = np.zeros((*weights.shape[:2], len(ROLES), 4))
        for n, role in enumerate(ROLES.values()):
            mask = role(facts)
            rows = mask.any(1)
            found[:, :, n, 0] = (mask[place, best] & rows).sum(2)
            found[:, :, n, 1] = (mask.sum(1) / max(length, 1)).sum()
            found[:, :, n, 2] = (weights * mask).sum((2, 3))
            found[:, :, n, 3] = rows.sum()
        self._rows.append(found)

    def table(self, seed: int = 0) -> pd.DataFrame:
        """A row for each layer, head (from 1 on) and role.

        ``share`` of the tokens' largest weights, with ``low`` and ``high`` (95 % bootstrap over sentences); its
        ``chance``; ``difference`` of the two; ``certain``, whether the interval of the difference excludes 0; and
        the mean ``weight`` that falls on such tokens. NaN for a role that no token has.
        """
        import pandas as pd

        counts = np.stack(self._rows)
        rows = []
        for layer, head, n in np.ndindex(counts.shape[1:4]):
            each = counts[:, layer, head, n]
            hits, chance, weight, tokens = each.sum(0)
            draws = resampled_sums(each, seed)
            low, high = percentile_interval(ratio(draws[:, 0], draws[:, 3]))
            least, most = percentile_interval(ratio(draws[:, 0] - draws[:, 1], draws[:, 3]))
            share, by_chance, mean = (float(ratio(x, tokens)) for x in (hits, chance, weight))
            facts = {"layer": layer + 1, "head": head + 1, "role": list(ROLES)[n], "share": share, "low": low}
            facts |= {"high": high, "chance": by_chance, "difference": share - by_chance}
            rows.append({**facts, "certain": bool(least > 0 or most < 0), "weight": mean})
        return pd.DataFrame(rows)


def token_facts(tokens: Sequence[str], words: np.ndarray, counts: np.ndarray) -> TokenFacts:
    """The facts of a sentence.

    Args:
        tokens: as text, subwords with or without the sign of a word's begin.
        words, counts: as of :class:`TokenFacts`.
    """
    named = [without_mark(token) for token in tokens]  # a lone mark of a word's start is no punctuation
    marks = [
        word >= 0 and token != "" and not any(c.isalnum() for c in token)
        for token, word in zip(named, words.tolist(), strict=True)
    ]
    return TokenFacts(words, counts, np.array(marks, bool))


RESIDUAL = 0.5  #: the share of the residual connection
UNIT = 1 << 30  #: the capacity that stands for a weight of 1, whole numbers being what the algorithm needs


def mixed_layers(weights: np.ndarray, residual: float = RESIDUAL) -> np.ndarray:
    """float64 (layers, L, L): the edges of every layer.

    Args:
        weights: (layers, L, L), or (layers, K, L, L) with heads, whose mean is taken; rows sum to 1.
        residual: the share of the residual connection.

    Raises:
        AlignkitError: the weights have another shape, or the share is not between 0 and 1.
    """
    found = np.asarray(weights, np.float64)
    if found.ndim == 4:
        found = found.mean(1)
    if found.ndim != 3 or found.shape[1] != found.shape[2]:
        raise AlignkitError(f"self-attention has the shape (layers, L, L), not {np.shape(weights)}")
    if not 0 <= residual <= 1:
        raise AlignkitError(f"the share of the residual connection lies between 0 and 1, not {residual}")
    mixed: np.ndarray = (1 - residual) * found + residual * np.eye(found.shape[1])
    return mixed


def attention_rollout(weights: np.ndarray, residual: float = RESIDUAL) -> np.ndarray:
    """float64 (L, L): row i has the shares of the input tokens in token i of the last layer; rows sum to 1.

    Arguments and errors as of :func:`mixed_layers`.
    """
    found = mixed_layers(weights, residual)
    total = np.eye(found.shape[1])
    for layer in found:
        total = layer @ total
    return total


def attention_flow(weights: np.ndarray, residual: float = RESIDUAL) -> np.ndarray:
    """float64 (L, L): the maximum flow from token i of the last layer to input token j, from 0 to 1.

    Each of the L^2 flows is a problem of its own: a sentence of 20 tokens and 6 layers takes about a second.
    Weights are rounded to 2^-30. Arguments and errors as of :func:`mixed_layers`.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    found = mixed_layers(weights, residual)
    layers, length = found.shape[:2]
    # Node n * L + i is token i after n layers; an edge leads from each to those of the layer below.
    above, heads, tails = np.nonzero(np.rint(found * UNIT) > 0)
    rows, columns = (above + 1) * length + heads, above * length + tails
    values = np.rint(found[above, heads, tails] * UNIT).astype(np.int32)
    size = (layers + 1) * length
    graph = csr_array((values, (rows.astype(np.int32), columns.astype(np.int32))), shape=(size, size))
    flows = np.empty((length, length))
    for i in range(length):
        for j in range(length):
            flows[i, j] = maximum_flow(graph, layers * length + i, j).flow_value if layers else UNIT * (i == j)
    flows /= UNIT
    return flows


class EffectiveAttention(NamedTuple):
    """The part of attention weights that has an effect.

    Attributes:
        weights: float64 (rows, L).
        hidden: the dimension of the null space, L less the rank of the values; 0 if the weights are identifiable.
        share: the effective part's share of the squared norm of all weights, from 0 to 1.
    """

    weights: np.ndarray
    hidden: int
    share: float


def effective_attention(weights: np.ndarray, values: np.ndarray) -> EffectiveAttention:
    """The effective attention of a head.

    Args:
        weights: A, (rows, L).
        values: T, (L, E): the values W_V h_l through the head's columns of W_O.

    Raises:
        AlignkitError: the two do not have the same number L of tokens.
    """
    found, basis = np.asarray(weights, np.float64), np.asarray(values, np.float64)
    if found.ndim != 2 or basis.ndim != 2 or found.shape[1] != len(basis):
        raise AlignkitError(f"weights of shape {np.shape(weights)} and values of shape {np.shape(values)}")
    if not basis.size or not found.size:
        return EffectiveAttention(np.zeros_like(found), found.shape[1], 0.0)
    left, sizes, _ = np.linalg.svd(basis, full_matrices=False)
    # Values of float32 precision have singular values of about this size where there should be zeros.
    rank = int((sizes > sizes[0] * max(basis.shape) * np.finfo(np.float32).eps).sum())
    span = left[:, :rank]
    effective = (found @ span) @ span.T
    whole = float((found**2).sum())
    share = float((effective**2).sum()) / whole if whole else 0.0
    return EffectiveAttention(effective, found.shape[1] - rank, share)


BATCH = 32  #: sentences at a time
#: how the layers are seen as one
METHODS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"rollout": attention_rollout, "flow": attention_flow}


class SentenceHeads(NamedTuple):
    """The self-attention of one sentence.

    Attributes:
        sentence: its index.
        weights: (layers, K, L, L).
        values: (layers, K, L, E), what each head adds to a state that attends to one token alone.
    """

    sentence: int
    weights: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class HeadReport:
    """What the heads of an encoder do.

    Attributes:
        roles: a row for each layer, head and role (:meth:`alignkit.heads.self_attention.RoleCounts.table`).
        identifiability: a row for each layer and head: ``hidden``, the mean dimension of the weights' part without
            effect; ``affected``, the share of sentences that have such a part; ``share``, the mean share of the
            squared weights that has an effect (:mod:`alignkit.heads.self_attention`).
    """

    roles: pd.DataFrame
    identifiability: pd.DataFrame


def sentence_heads(
    aligner: NeuralAligner, corpus: Corpus, progress: Progress | None = None
) -> Iterator[SentenceHeads]:
    """The self-attention of the sentences of a corpus that are not empty, in order of length.

    Args:
        aligner: with a transformer.
        corpus: source sentences, as the aligner's tokenizer encodes them.
        progress: called after each batch.

    Raises:
        AlignkitError: the network has no self-attention.
    """
    network = aligner.network
    if not isinstance(network, Transformer):
        raise AlignkitError(
            f"a network of the architecture {network.settings.architecture} has no self-attention; "
            "give a transformer"
        )
    lengths = corpus.lengths
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    texts = DeviceCorpus(corpus, device_of(network))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        tokens, sizes = texts.gather(chosen)
        with evaluation_mode(network):
            weights, values = (found.double().cpu().numpy() for found in network.self_attention(tokens, sizes))
        for place, (m, size) in enumerate(zip(chosen.tolist(), sizes.tolist(), strict=True)):
            yield SentenceHeads(m, weights[place, :, :, :size, :size], values[place, :, :, :size])
        if progress is not None:
            progress(start + len(chosen), len(order), "self-attention")


def head_report(
    aligner: NeuralAligner,
    lines: Sequence[str],
    counts: np.ndarray | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> HeadReport:
    """What the encoder's heads attend to, beside chance, and how far their weights can be identified.

    Args:
        aligner: with a transformer.
        lines: source text.
        counts: int (V,), how often each token is seen; of these lines if not given.
        progress: called after each batch.
        seed: of the bootstrap.

    Raises:
        AlignkitError: the network is no transformer, or no line has a token.
    """
    import pandas as pd

    corpus = _encoded(aligner, lines)
    if counts is None:
        counts = np.bincount(corpus.tokens, minlength=len(corpus.vocabulary))
    roles, sums, affected, sentences = RoleCounts(), None, None, 0
    for found in sentence_heads(aligner, corpus, progress):
        ids = corpus[found.sentence]
        words = token_words(aligner.tokenizer, lines[found.sentence], ids)
        roles.add(found.weights, token_facts([corpus.vocabulary[i] for i in ids], words, counts[ids]))
        each = np.array(
            [
                [effective_attention(a, v)[1:] for a, v in zip(*layer, strict=True)]
                for layer in zip(found.weights, found.values, strict=True)
            ]
        )
        sums = each if sums is None else sums + each
        affected = (each[..., 0] > 0) * 1 if affected is None else affected + (each[..., 0] > 0)
        sentences += 1
    if sums is None or affected is None:
        raise AlignkitError("no line of the text has a token")
    rows = [
        {
            "layer": layer + 1,
            "head": head + 1,
            "hidden": sums[layer, head, 0] / sentences,
            "affected": affected[layer, head] / sentences,
            "share": sums[layer, head, 1] / sentences,
        }
        for layer, head in np.ndindex(*sums.shape[:2])
    ]
    return HeadReport(roles.table(seed), pd.DataFrame(rows))


def input_attention(
    aligner: NeuralAligner, lines: Sequence[str], method: str = "rollout", progress: Progress | None = None
) -> Scores:
    """How much of each input word reaches the encoder's last state of each word, (L, L) for every line.

    Between whitespace words: columns of a word's tokens are added up, their rows averaged, and what the sentence's
    begin and end have is left out.

    Args:
        aligner: with a transformer.
        lines: source text.
        method: a name in :data:`METHODS`.
        progress: called after each batch.

    Raises:
        AlignkitError: the network is no transformer, or there is no such method.
    """
    if method not in METHODS:
        raise AlignkitError(f"the method must be one of {', '.join(METHODS)}, not {method!r}")
    corpus = _encoded(aligner, lines)
    matrices = [np.zeros((length, length), np.float32) for length in corpus.lengths.tolist()]
    for found in sentence_heads(aligner, corpus, progress):
        matrices[found.sentence] = METHODS[method](found.weights).astype(np.float32)
    groups = [
        (token_words(aligner.tokenizer, line, ids), len(split_words(line)))
        for line, ids in zip(lines, corpus, strict=True)
    ]
    return merge_to_words(Scores.from_matrices(matrices), groups, groups)


def _encoded(aligner: NeuralAligner, lines: Sequence[str]) -> Corpus:
    check_list(lines, "the text must be a list of lines")
    return encode_lines(aligner.tokenizer, lines, bos=True, eos=True)
