"""The quality of a network on a bitext: loss and accuracy under teacher forcing, and BLEU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.neural.batch_sizes import BatchSizes, batch_sizes
from alignkit.neural.batching import Batch, Batcher, scoring_batches
from alignkit.neural.devices import device_of
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.scoring.decoding import translate
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer


@dataclass(frozen=True)
class NetworkEvaluation:
    """Means over all target tokens, EOS included.

    Attributes:
        loss: nats per token.
        accuracy: share of tokens that are the most probable ones given the right tokens before them.
        tokens: number of tokens.
    """

    loss: float
    accuracy: float
    tokens: int


def evaluate_network(
    network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None
) -> NetworkEvaluation:
    """Loss and token accuracy under teacher forcing, with dropout off."""
    device = device_of(network)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    right = torch.zeros((), dtype=torch.int64, device=device)
    tokens = 0
    with evaluation_mode(network):
        for batch, logits in _logits(network, bitext, sizes):
            y = batch.targets
            chosen = logits.gather(1, y.unsqueeze(1)).squeeze(1)
            loss += (torch.logsumexp(logits, 1) - chosen).sum(dtype=torch.float64)
            right += (logits.argmax(1) == y).sum()
            tokens += len(y)
    return NetworkEvaluation(loss.item() / max(tokens, 1), right.item() / max(tokens, 1), tokens)


def translation_log_probabilities(
    network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None
) -> np.ndarray:
    """float64 (M,): log p(target | source) of each pair, natural logarithm, EOS included, with dropout off."""
    lengths = bitext.target.lengths
    totals = np.zeros(len(bitext), np.float64)
    with evaluation_mode(network):
        for batch, logits in _logits(network, bitext, sizes):
            chosen = logits.gather(1, batch.targets.unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, 1)
            pairs = np.repeat(batch.pairs, lengths[batch.pairs])
            np.add.at(totals, pairs, chosen.double().cpu().numpy())
    return totals


def _logits(
    network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None
) -> Iterator[tuple[Batch, Tensor]]:
    """The batches of a bitext, and the logits (N, V) of the real target tokens of each."""
    device = device_of(network)
    batcher = Batcher(bitext, device)
    for pairs in scoring_batches(bitext, sizes or batch_sizes("evaluation", device)):
        batch = batcher(pairs)
        features = network(batch.source, batch.source_lengths, batch.previous)
        yield batch, network.output(features.flatten(0, 1)[batch.places])


def bleu(
    network: TranslationNetwork,
    tokenizer: Tokenizer,
    bitext: Bitext,
    references: Sequence[str],
    beam: int = 5,
    length_penalty: float = 0.0,
) -> float:
    """BLEU (sacrebleu, its default 13a tokens, 0 to 100) of the translations of ``bitext.source``.

    Args:
        network: translates, by beam search (:func:`alignkit.neural.scoring.decoding.beam_search`).
        tokenizer: decodes token ids to text.
        bitext: M pairs.
        references: M lines of raw text.
        length_penalty: of the beam search.

    Raises:
        AlignkitError: the numbers of pairs and of references differ.
    """
    if len(references) != len(bitext):
        raise AlignkitError(f"BLEU needs a reference per pair: {len(bitext)} pairs, {len(references)} lines")
    if not references:
        return 0.0
    import sacrebleu

    lines = [
        tokenizer.decode(ids) for ids in translate(network, bitext.source, beam, length_penalty=length_penalty)
    ]
    return float(sacrebleu.corpus_bleu(lines, [list(references)], force=True).score)
