"""Translation by greedy and beam search, and the quality of a network on a bitext: loss, accuracy and BLEU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.neural.devices import (
    Batch,
    Batcher,
    BatchSizes,
    DeviceCorpus,
    batch_sizes,
    device_of,
    evaluation_mode,
    scoring_batches,
)
from alignkit.neural.networks.encoder_decoder import TranslationNetwork
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, EOS, PAD, Tokenizer

CHECK_EVERY = 8  #: steps between two tests on a GPU of whether all sentences have ended, as each test stalls it


def longest(length: Any) -> Any:
    """The maximum length of a translation of ``length`` source tokens, EOS included; of an array, that of each."""
    return 2 * length + 10


def beam_search(
    network: TranslationNetwork, source: Tensor, lengths: np.ndarray, beam: int, steps: int | np.ndarray
) -> tuple[Tensor, Tensor]:
    """The most probable translations by beam search, which is greedy search with a beam of 1.

    Hypotheses are compared by log p. One that has ended keeps its place as long as it is among the best ``beam``;
    the search stops when the best has ended, because none can overtake it, so the others may be incomplete.

    Args:
        network: on the device of the source.
        source: int64 (L, B), with their lengths (B,).
        beam: k, hypotheses per sentence.
        steps: the maximum length of a translation, EOS included; int64 (B,) if it is not the same of all. T is
            the largest.

    Returns:
        tokens int64 (B, k, T), the best first, padded with PAD after EOS; log probabilities (B, k).
    """
    with evaluation_mode(network):
        encoding = network.encode(source, lengths)
        batch, vocabulary, device = source.shape[1], network.settings.vocabulary, source.device
        state = tuple(part.repeat_interleave(beam, dim=1) for part in encoding.start)
        limits = torch.from_numpy(np.broadcast_to(steps, (batch,)).copy()).to(device).unsqueeze(1)
        steps = int(np.max(steps))
        tokens = torch.full((batch, beam, steps), PAD, device=device)
        last = torch.full((batch, beam), BOS, device=device)
        # All k hypotheses are equal at first, so that only one of them may continue.
        total = torch.full((batch, beam), float("-inf"), device=device)
        total[:, 0] = 0.0
        ended = torch.zeros((batch, beam), dtype=torch.bool, device=device)
        # A hypothesis that has ended can be continued by PAD only, at no cost.
        stay = torch.full((vocabulary,), float("-inf"), device=device)
        stay[PAD] = 0.0
        first = (torch.arange(batch, device=device) * beam).unsqueeze(1)
        for step in range(steps):
            features, _, state = network.decode(last.view(1, -1), encoding, state)
            gains = torch.log_softmax(network.output(features.view(batch, beam, -1)), dim=2)
            gains = torch.where(ended.unsqueeze(2), stay, gains)
            total, places = (total.unsqueeze(2) + gains).view(batch, -1).topk(beam, dim=1)
            origin, last = places // vocabulary, places % vocabulary
            tokens = tokens.gather(1, origin.unsqueeze(2).expand(-1, -1, steps))
            tokens[:, :, step] = last
            ended = ended.gather(1, origin) | (last == EOS) | (limits <= step + 1)
            rows = (first + origin).view(-1)
            state = tuple(part.index_select(1, rows) for part in state)
            # Log probabilities only fall, so that none that goes on can do better than the best.
            if (device.type == "cpu" or step % CHECK_EVERY == 0) and bool(ended[:, 0].all()):
                break
        return tokens, total


def translate(
    network: TranslationNetwork, source: Corpus, beam: int = 1, sizes: BatchSizes | None = None
) -> list[list[int]]:
    """The best translation of every sentence as token ids, without EOS; no tokens for an empty sentence.

    Args:
        network: on the device that computes.
        source: M sentences.
        beam: k, hypotheses per sentence.
        sizes: of the batches; each has ``sizes.pairs`` hypotheses, but at least one sentence.
    """
    device = device_of(network)
    sizes = sizes or batch_sizes("translation", device)
    corpus = DeviceCorpus(source, device)
    out: list[list[int]] = [[] for _ in range(len(source))]
    for pairs in scoring_batches(Bitext(source, source), sizes._replace(pairs=max(1, sizes.pairs // beam))):
        words, lengths = corpus.gather(pairs)
        most = longest(lengths)
        tokens, _ = beam_search(network, words, lengths, beam, most)
        for m, ids, end in zip(pairs.tolist(), tokens[:, 0].tolist(), most.tolist(), strict=True):
            out[m] = ids[: ids.index(EOS) if EOS in ids else end]
    return out


def evaluate_network(
    network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None
) -> tuple[float, float]:
    """Loss and token accuracy under teacher forcing, with dropout off: means over all target tokens, EOS included.

    Returns:
        nats per token; the share of tokens that are the most probable ones given the right tokens before them.
    """
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
    return loss.item() / max(tokens, 1), right.item() / max(tokens, 1)


def translation_log_probabilities(network: TranslationNetwork, bitext: Bitext) -> np.ndarray:
    """float64 (M,): log p(target | source) of each pair, natural logarithm, EOS included, with dropout off."""
    lengths = bitext.target.lengths
    totals = np.zeros(len(bitext), np.float64)
    with evaluation_mode(network):
        for batch, logits in _logits(network, bitext):
            chosen = logits.gather(1, batch.targets.unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, 1)
            pairs = np.repeat(batch.pairs, lengths[batch.pairs])
            np.add.at(totals, pairs, chosen.double().cpu().numpy())
    return totals


def _logits(
    network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None
) -> Iterator[tuple[Batch, Tensor]]:
    """The batches of a bitext, and the logits (N, V) of the real target tokens of each."""
    device = device_of(network)
    batcher = Batcher(bitext, device)
    for pairs in scoring_batches(bitext, sizes or batch_sizes("evaluation", device)):
        batch = batcher(pairs)
        features = network(batch.source, batch.source_lengths, batch.previous)
        yield batch, network.output(features.flatten(0, 1)[batch.places])


def bleu(
    network: TranslationNetwork, tokenizer: Tokenizer, bitext: Bitext, references: Sequence[str], beam: int = 5
) -> float:
    """BLEU (sacrebleu, its default 13a tokens, 0 to 100) of the translations of ``bitext.source``.

    Args:
        network: translates, by beam search (:func:`alignkit.neural.scoring.evaluation.beam_search`).
        tokenizer: decodes token ids to text.
        bitext: M pairs.
        references: M lines of raw text.

    Raises:
        AlignkitError: the numbers of pairs and of references differ.
    """
    if len(references) != len(bitext):
        raise AlignkitError(f"BLEU needs a reference per pair: {len(bitext)} pairs, {len(references)} lines")
    if not references:
        return 0.0
    import sacrebleu

    lines = [tokenizer.decode(ids) for ids in translate(network, bitext.source, beam)]
    return float(sacrebleu.corpus_bleu(lines, [list(references)], force=True).score)
