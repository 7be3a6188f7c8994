"""Scores of translation networks: attention, lexical probe (section 2.2), OV circuits, saliency, leave-one-out.

Also translation by greedy and beam search, and the quality of a network on a bitext: loss, accuracy and BLEU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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
    to_device,
)
from alignkit.neural.networks.encoder_decoder import Encoding, TranslationNetwork
from alignkit.neural.scoring.saliency import autograd_saliency, has_derivatives, lstm_saliency
from alignkit.neural.settings import Reading
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import in_runs
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, EOS, PAD, Tokenizer

CHECK_EVERY = 8  #: steps between two tests on a GPU of whether all sentences have ended, as each test stalls it


def network_scores(
    network: TranslationNetwork,
    bitext: Bitext,
    kind: str,
    reading: Reading = Reading(),  # noqa: B008  # it is frozen
    sizes: BatchSizes | None = None,
) -> Scores:
    """A (T, L) matrix per pair, under teacher forcing and in evaluation mode.

    ``alpha``: the attention weights at the prediction of y_t. Rows sum to 1, except with normalizers whose rows do
    not (:data:`alignkit.neural.settings.NORMALIZERS`). ``beta``: N([h_l, s_t])[y_t], the probability of y_t if the
    network sees only h_l (section 2.2), which takes the context's place, through the same projection, and those of
    the heads if there are several. ``ov``:
    softmax(U norm(sum of W_O W_V h_l))[y_t], what attention heads that see h_l alone say of y_t. ``delta``: d log
    p(y_t | y_<t, x) / d omega_l at omega = 1, where omega_l scales the embedding of x_l; it is total, through the
    attention, the encoder's states and the decoder's initial state, and may be negative (Snell et al. 2021,
    section 3.1). ``loo``: log p(y_t | y_<t, x) - log p(y_t | y_<t, x without x_l), nats; a source without its only
    token is empty (:meth:`TranslationNetwork.encode`).

    The OV circuit of a head (Elhage et al. 2021) is the map by which an encoder state that it attends to reaches
    the decoder's states, and through the last layer normalization the output layer: a lexicon of the head,
    whatever the decoder's state is.

    Args:
        network: on the device that computes.
        bitext: M pairs of the network's own tokens.
        kind: one of the five.
        reading: the layer and head of ``alpha``, by default the means over them; of ``ov``, the sums.
        sizes: of the batches; by default those of :mod:`alignkit.neural.devices`.

    Raises:
        AlignkitError: the network has no OV circuits, or gives scores that are not finite.
    """
    score, purpose = KINDS[kind]
    device, shapes = device_of(network), bitext.shapes
    sizes, offsets = sizes or batch_sizes(purpose, device), flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device)
    with evaluation_mode(network, gradients=kind == "delta" and not has_derivatives(network)):
        parts = [(p, score(network, batcher(p), reading, sizes)) for p in scoring_batches(bitext, sizes)]
    elements = np.diff(offsets)
    for pairs, flat in parts:  # the host waits for the device only now
        values[in_runs(offsets[pairs], elements[pairs])] = flat.cpu().numpy()
    return finite_scores(values, offsets, shapes)


def finite_scores(values: np.ndarray, offsets: np.ndarray, shapes: np.ndarray) -> Scores:
    """The scores of a network; arguments as of :class:`Scores`.

    Raises:
        AlignkitError: one of them is not finite.
    """
    if not np.isfinite(values).all():
        raise AlignkitError(
            "the network gives scores that are not finite, so its weights are damaged or its training diverged; "
            "train it again, with a smaller learning rate"
        )
    return Scores(values, offsets, shapes)


def element_places(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """The indices of the two tokens of every matrix element of a batch, pair by pair and row by row.

    Returns:
        int64 indices of t in a flattened (B, T) array, and of l in a flattened (B, L) array.
    """
    tall, wide = batch.target_lengths, batch.source_lengths
    sizes = tall * wide
    inside = in_runs(np.zeros_like(sizes), sizes)  # index of the element in its own matrix
    width = np.repeat(wide, sizes)
    pair = np.repeat(np.arange(len(sizes)), sizes)
    row = pair * batch.target.shape[0] + inside // width
    column = pair * batch.source.shape[0] + inside % width
    return to_device(row, device), to_device(column, device)


def elements_of(matrices: Tensor, batch: Batch) -> Tensor:
    """The elements of padded matrices (B, T, L) that are not padding, pair by pair and row by row."""
    row, column = element_places(batch, matrices.device)
    length = matrices.shape[2]
    return matrices.reshape(-1, length)[row, column % length]


def alpha(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    encoding = network.encode(batch.source, batch.source_lengths)
    return elements_of(read_weights(network, encoding, batch, reading), batch)


def read_weights(network: TranslationNetwork, encoding: Encoding, batch: Batch, reading: Reading) -> Tensor:
    """The weights (B, T, L) that a reading chooses, under teacher forcing."""
    previous = batch.previous
    if reading.shifted:  # the inputs are then y_1..y_T, after BOS
        previous = torch.cat([previous[:1], batch.target])
    if reading.layer or reading.head:
        weights = chosen_map(network.attention_maps(encoding, previous), reading)
    else:
        weights = network.attention_weights(encoding, previous)
    return weights[:, 1:] if reading.shifted else weights


def chosen_map(maps: Tensor, reading: Reading) -> Tensor:
    """(B, T, L): the layer and head of weights (B, layers, K, T, L) that a reading names, or their means."""
    layers = maps[:, reading.layer - 1] if reading.layer else maps.mean(1)
    return layers[:, reading.head - 1] if reading.head else layers.mean(1)


def beta(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    # The cost is a product of H x V for each (t, l).
    encoding = network.encode(batch.source, batch.source_lengths)
    features = network.lexical_features(encoding, batch.previous)
    row, column = element_places(batch, encoding.h.device)
    y = batch.target.t().reshape(-1)[row]
    logs = log_probabilities_of(network.output, y, lambda part: features(row[part], column[part]), sizes)
    return logs.exp_()


def log_probabilities_of(
    output: nn.Linear, y: Tensor, features: Callable[[slice | Tensor], Tensor], sizes: BatchSizes
) -> Tensor:
    """log p (N,) of tokens y (N,), nats.

    Args:
        output: the output layer.
        y: int64.
        features: gives that layer's input, (R, F), of R of the N tokens: of a slice, or at indices int64 (R,).
        sizes: its number of logits at a time is used.
    """
    # Contiguous in the order of the product; otherwise oneDNN rearranges it for every chunk.
    weight, bias = output.weight.t().contiguous(), output.bias
    step = sizes.rows(output)
    buffer = weight.new_empty(min(step, len(y)), len(bias))

    def products(part: slice | Tensor) -> Tensor:
        """W x (R, V) of some elements, without the bias; each call overwrites the last."""
        x = features(part)
        return torch.mm(x, weight, out=buffer[: len(x)])

    # sum over v of exp(product + bias) = exp(product) · exp(bias), which takes no pass to add the bias and none to
    # find the maximum. In float32 this works for logits up to about 80, with the same relative precision at any
    # scale. It is a product of matrices with padded columns, because the last bits of a product of a matrix and a
    # vector depend on the number of threads, whatever MKL is told.
    factor = nn.functional.pad(bias.exp().unsqueeze(1), (0, 3))
    chosen, totals = weight.new_empty(len(y)), weight.new_empty(len(y))
    for low in range(0, len(y), step):
        part = slice(low, low + step)
        chunk = products(part)
        chosen[part] = chunk.gather(1, y[part].unsqueeze(1)).squeeze(1)
        totals[part] = torch.mm(chunk.exp_(), factor)[:, 0]
    logs = chosen + bias[y] - totals.log()
    # Sums out of range are computed again with the maximum. One such test per batch hardly stalls a GPU.
    again = ((totals < 1e-30) | ~(totals < 1e37)).nonzero().squeeze(1)
    for some in again.split(step):
        shifted = products(some).add_(bias)
        logs[some] = shifted.gather(1, y[some].unsqueeze(1)).squeeze(1) - torch.logsumexp(shifted, 1)
    return logs


def ov(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    h = network.encode(batch.source, batch.source_lengths).h
    parts = []
    for own, y in zip(network.ov_features(h, reading), batch.target.t(), strict=True):
        # (L, T) of a pair, some of its source tokens at a time
        columns = [torch.softmax(network.output(part), 1)[:, y] for part in own.split(sizes.rows(network.output))]
        parts.append(torch.cat(columns).t())
    return elements_of(torch.stack(parts), batch)


def delta(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    find = lstm_saliency if has_derivatives(network) else autograd_saliency
    return elements_of(find(network, batch, sizes), batch)


def leave_one_out(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    # The sources of a batch are of one length.
    (length, size), device = batch.source.shape, batch.source.device
    x = network(batch.source, batch.source_lengths, batch.previous)
    y, output = batch.targets, network.output
    whole = log_probabilities_of(output, y, x.flatten(0, 1)[batch.places].__getitem__, sizes)
    lost = x.new_zeros(size * len(batch.previous), length)
    left = np.arange(length - 1)[:, None]
    places = max(1, sizes.derivatives // (length * size * output.in_features))
    for low in range(0, length, places):
        # The sources without the token at each of R holes, one after another.
        holes = np.arange(low, min(low + places, length))
        kept = torch.from_numpy(left + (left >= holes)).to(device)
        lengths = np.full(len(holes) * size, length - 1, np.int64)
        previous = batch.previous.unsqueeze(1).expand(-1, len(holes), -1).flatten(1)
        x = network(batch.source[kept].flatten(1), lengths, previous)
        rows = x.reshape(len(holes), -1, x.shape[2])[:, batch.places].flatten(0, 1)
        logs = log_probabilities_of(output, y.repeat(len(holes)), rows.__getitem__, sizes)
        lost[batch.places, low : low + len(holes)] = (whole - logs.view(len(holes), -1)).t()
    return elements_of(lost.view(size, -1, length), batch)


#: kind of score -> what gives the matrix elements of a batch, in the order of :func:`element_places`; and the
#: purpose for which :func:`alignkit.neural.devices.batch_sizes` has the sizes of batches
KINDS: dict[str, tuple[Callable[[TranslationNetwork, Batch, Reading, BatchSizes], Tensor], str]] = {
    "alpha": (alpha, "probes"),
    "beta": (beta, "probes"),
    "ov": (ov, "probes"),
    "delta": (delta, "saliency"),
    "loo": (leave_one_out, "leave_one_out"),
}


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
        network: translates, by beam search (:func:`beam_search`).
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
