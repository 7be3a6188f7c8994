"""The self-attention of a transformer's encoder: what its heads do, and which input tokens reach its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignkit.analysis.attention_flow import attention_flow, attention_rollout
from alignkit.analysis.effective_attention import effective_attention
from alignkit.analysis.head_roles import RoleCounts, token_facts
from alignkit.errors import AlignkitError, check_list
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.batching import DeviceCorpus
from alignkit.neural.devices import device_of
from alignkit.neural.networks.transformer import Transformer
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.scores import Scores, merge_to_words, token_words
from alignkit.text.bitext import Corpus
from alignkit.text.tokenization import encode_lines, split_words
from alignkit.types import Progress

if TYPE_CHECKING:
    import pandas as pd

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
        roles: a row for each layer, head and role (:meth:`alignkit.analysis.head_roles.RoleCounts.table`).
        identifiability: a row for each layer and head: ``hidden``, the mean dimension of the weights' part without
            effect; ``affected``, the share of sentences that have such a part; ``share``, the mean share of the
            squared weights that has an effect (:mod:`alignkit.analysis.effective_attention`).
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
