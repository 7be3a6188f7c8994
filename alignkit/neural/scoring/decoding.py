"""Translation: greedy and beam search, whole batches at a time, with no loop over sentences or tokens."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from alignkit.neural.batching import DeviceCorpus, scoring_batches
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, EOS, PAD

CHECK_EVERY = 8  #: on a GPU, asking whether all sentences have ended stops the queue: not at every step


def longest(length: int) -> int:
    """The most tokens that a translation of ``length`` source tokens may have, EOS included."""
    return 2 * length + 10


@torch.inference_mode()
def beam_search(
    network: EncoderDecoder, source: Tensor, lengths: np.ndarray, beam: int, steps: int
) -> tuple[Tensor, Tensor]:
    """The likeliest translations by beam search; a beam of 1 is greedy.

    Hypotheses compare by log probability, with no penalty on length. One that has ended keeps its place and
    its score as long as it is among the best ``beam``.

    Args:
        network: in evaluation mode.
        source: int64 (L, B), with their lengths (B,).
        beam: k, hypotheses per sentence.
        steps: T, the most tokens of a translation, EOS included.

    Returns:
        tokens int64 (B, k, T), after EOS only PAD, the likeliest first; log probabilities (B, k).
    """
    encoding = network.encode(source, lengths)
    batch, vocabulary = source.shape[1], network.settings.vocabulary
    layers, hidden = network.settings.layers, network.settings.hidden
    h, c = (part.repeat_interleave(beam, dim=1) for part in encoding.start)
    device = source.device
    tokens = torch.full((batch, beam, steps), PAD, device=device)
    last = torch.full((batch, beam), BOS, device=device)
    # All k hypotheses are equal at first: only one may go on.
    total = torch.full((batch, beam), float("-inf"), device=device)
    total[:, 0] = 0.0
    ended = torch.zeros((batch, beam), dtype=torch.bool, device=device)
    # An ended hypothesis goes on with PAD at no cost, and with nothing else.
    stay = torch.full((vocabulary,), float("-inf"), device=device)
    stay[PAD] = 0.0
    first = (torch.arange(batch, device=device) * beam).unsqueeze(1)
    for step in range(steps):
        s, (h, c) = network.states(last.view(1, -1), (h.contiguous(), c.contiguous()))
        s = s.view(batch, beam, hidden)
        features = network.features(s, network.contexts(s, encoding))
        gains = torch.log_softmax(network.output(features), dim=2)
        gains = torch.where(ended.unsqueeze(2), stay, gains)
        total, places = (total.unsqueeze(2) + gains).view(batch, -1).topk(beam, dim=1)
        origin, last = places // vocabulary, places % vocabulary
        tokens = tokens.gather(1, origin.unsqueeze(2).expand(-1, -1, steps))
        tokens[:, :, step] = last
        ended = ended.gather(1, origin) | (last == EOS)
        rows = (first + origin).view(-1)
        h, c = h.view(layers, -1, hidden)[:, rows], c.view(layers, -1, hidden)[:, rows]
        # Log probabilities only fall: once the best has ended, none can overtake it.
        if (device.type == "cpu" or step % CHECK_EVERY == 0) and bool(ended[:, 0].all()):
            break
    return tokens, total


def translate(network: EncoderDecoder, source: Corpus, beam: int = 1, batch: int = 128) -> list[list[int]]:
    """The best translation of every sentence as token ids, without EOS; none for an empty sentence."""
    device = next(network.parameters()).device
    corpus = DeviceCorpus(source, device)
    out: list[list[int]] = [[] for _ in range(len(source))]
    was_training = network.training
    network.eval()
    rows = max(1, batch // beam)
    for pairs in scoring_batches(Bitext(source, source), rows, 1 << 40, device.type == "cpu"):
        words, lengths = corpus.gather(pairs)
        tokens, _ = beam_search(network, words, lengths, beam, longest(len(words)))
        for m, ids in zip(pairs.tolist(), tokens[:, 0].tolist(), strict=True):
            end = ids.index(EOS) if EOS in ids else len(ids)
            out[m] = ids[:end]
    network.train(was_training)
    return out


@torch.inference_mode()
def log_probability(network: EncoderDecoder, source: Tensor, lengths: np.ndarray, target: Tensor) -> Tensor:
    """log p(y | x), float (B,), of targets (T, B), all of one length, under teacher forcing."""
    previous = torch.cat([torch.full_like(target[:1], BOS), target[:-1]])
    logits = network.output(network(source, lengths, previous))
    chosen = one_hot(target.t(), network.settings.vocabulary).to(logits.dtype)
    return (torch.log_softmax(logits, 2) * chosen).sum((1, 2))
