"""How good a network is on a bitext: loss and accuracy under teacher forcing, and BLEU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from alignkit.errors import AlignkitError
from alignkit.neural.batching import Batcher, scoring_batches
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.scoring.decoding import translate
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer


@dataclass(frozen=True)
class Evaluation:
    """Means over all target tokens, EOS included.

    Attributes:
        loss: nats per token.
        accuracy: share of tokens that are the likeliest given the right tokens before them.
        tokens: how many there are.
    """

    loss: float
    accuracy: float
    tokens: int


@torch.inference_mode()
def evaluate(network: EncoderDecoder, bitext: Bitext, batch: int = 64) -> Evaluation:
    """Loss and token accuracy under teacher forcing, with dropout off."""
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    batcher = Batcher(bitext, device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    right = torch.zeros((), dtype=torch.int64, device=device)
    tokens = 0
    for pairs in scoring_batches(bitext, batch, 1 << 40, device.type == "cpu"):
        part = batcher(pairs)
        features = network(part.source, part.source_lengths, part.previous)
        logits = network.output(features.flatten(0, 1)[part.places])
        y = part.targets
        chosen = logits.gather(1, y.unsqueeze(1)).squeeze(1)
        loss += (torch.logsumexp(logits, 1) - chosen).sum(dtype=torch.float64)
        right += (logits.argmax(1) == y).sum()
        tokens += len(y)
    network.train(was_training)
    return Evaluation(loss.item() / max(tokens, 1), right.item() / max(tokens, 1), tokens)


@torch.inference_mode()
def log_probabilities(network: EncoderDecoder, bitext: Bitext, batch: int = 64) -> np.ndarray:
    """float64 (M,): log p(target | source) of each pair, natural logarithm, EOS included, with dropout off."""
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    batcher = Batcher(bitext, device)
    lengths = bitext.target.lengths
    totals = np.zeros(len(bitext), np.float64)
    for pairs in scoring_batches(bitext, batch, 1 << 40, device.type == "cpu"):
        part = batcher(pairs)
        features = network(part.source, part.source_lengths, part.previous)
        logits = network.output(features.flatten(0, 1)[part.places])
        chosen = logits.gather(1, part.targets.unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, 1)
        np.add.at(totals, np.repeat(pairs, lengths[pairs]), chosen.double().cpu().numpy())
    network.train(was_training)
    return totals


def bleu(
    network: EncoderDecoder, tokenizer: Tokenizer, bitext: Bitext, references: Sequence[str], beam: int = 5
) -> float:
    """BLEU (sacrebleu, its default 13a tokens, 0 to 100) of the translations of ``bitext.source``.

    Args:
        network: translates, by beam search (a beam of 1 is greedy).
        tokenizer: makes text of token ids.
        bitext: M pairs.
        references: M lines of raw text.

    Raises:
        AlignkitError: the numbers of pairs and references differ.
    """
    if len(references) != len(bitext):
        raise AlignkitError(f"BLEU needs a reference per pair: {len(bitext)} pairs, {len(references)} lines")
    if not references:
        return 0.0
    import sacrebleu

    lines = [tokenizer.decode(ids) for ids in translate(network, bitext.source, beam)]
    return float(sacrebleu.corpus_bleu(lines, [list(references)], force=True).score)
