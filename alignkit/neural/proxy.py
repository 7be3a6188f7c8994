"""The bag-of-words proxy of section 2.3: what translates to what, learned without attention.

p(y | x) = softmax(W mean_l e(x_l)), no bias, trained to give every word of the target sentence whatever its
place. At its initialisation the gradient is the table of co-occurrence (equations 13 and 14).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from alignkit.aligner.protocol import check_kind
from alignkit.errors import AlignkitError
from alignkit.neural.batch_sizes import BatchSizes, batch_sizes
from alignkit.neural.batching import to_device, usable
from alignkit.neural.checkpoints import PROXY, save_payload
from alignkit.neural.devices import pick_device
from alignkit.neural.losses import BagLoss
from alignkit.neural.scoring.modes import scoring_mode
from alignkit.neural.settings import ProxySettings, to_dict
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import UNKNOWN, Vocabulary
from alignkit.types import PathLike, Progress


@dataclass(frozen=True, eq=False)
class ProxyAligner:
    """A trained proxy as an aligner: beta[t, l] = softmax(W e(x_l))[y_t] depends on the two words only.

    Attributes:
        embedding: float32 (V_src, K), e.
        output: float32 (V_tgt, K), W.
        source: vocabulary of the source.
        target: vocabulary of the target.
        settings: how it was trained.
        loss: its validation loss, nats per token.
    """

    embedding: Tensor = field(repr=False)
    output: Tensor = field(repr=False)
    source: Vocabulary
    target: Vocabulary
    settings: ProxySettings
    loss: float

    def __post_init__(self) -> None:
        if self.embedding.ndim != 2 or self.output.ndim != 2:
            raise ValueError("a proxy needs two matrices")
        if self.embedding.shape[1] != self.output.shape[1]:
            raise ValueError("the two matrices of a proxy differ in their size of embedding")
        if (len(self.embedding), len(self.output)) != (len(self.source), len(self.target)):
            raise ValueError("a proxy needs a row per token of its vocabularies")

    @property
    def name(self) -> str:
        return "proxy"

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("beta",)

    def score(self, bitext: Bitext, kind: str, sizes: BatchSizes | None = None) -> Scores:
        """The (T, L) matrix of every pair; 0 where the proxy does not know one of the words.

        Args:
            bitext: M pairs of words.
            kind: ``beta``.
            sizes: how many logits at a time.

        Raises:
            AlignkitError: no such kind.
        """
        check_kind(self, kind)
        source = _known(bitext.source, self.source)
        target = _known(bitext.target, self.target)
        shapes = bitext.shapes
        offsets = flat_offsets(shapes)
        x, y = _elements(bitext, source, target, shapes)
        values = np.zeros(offsets[-1], np.float32)
        known = np.flatnonzero((x != UNKNOWN) & (y != UNKNOWN))
        sizes = sizes or batch_sizes("proxy", self.output.device)
        with scoring_mode(self.output.device):
            values[known] = self._pairs(x[known], y[known], sizes.logits)
        return Scores(values, offsets, shapes)

    def _pairs(self, x: np.ndarray, y: np.ndarray, logits: int) -> np.ndarray:
        """float32: softmax(W e(x))[y] of each word pair; the softmax is made once per distinct x.

        ``logits``: bytes of them at a time.
        """
        order = np.argsort(x, kind="stable")
        words, starts = np.unique(x[order], return_index=True)
        bounds = np.append(starts, len(x))
        out = np.empty(len(x), np.float32)
        device, size = self.output.device, len(self.output)
        step = max(1, logits // (4 * size))
        for low in range(0, len(words), step):
            high = min(low + step, len(words))
            some = to_device(words[low:high].astype(np.int64), device)
            table = torch.softmax(self.embedding[some] @ self.output.t(), 1)
            places = order[bounds[low] : bounds[high]]
            row = np.repeat(np.arange(high - low), np.diff(bounds[low : high + 1]))
            at = to_device(row * size + y[places], device)
            out[places] = table.view(-1)[at].cpu().numpy()
        return out

    def save(self, path: PathLike) -> None:
        """Writes a checkpoint; raises AlignkitError if the name does not end in .pt."""
        weights = {"embedding": self.embedding, "output": self.output}
        payload = {
            "settings": to_dict(self.settings),
            "source": list(self.source.tokens),
            "target": list(self.target.tokens),
            "loss": self.loss,
            "weights": {name: tensor.cpu().contiguous() for name, tensor in weights.items()},
        }
        save_payload(path, PROXY, payload)


def _known(corpus: Corpus, vocabulary: Vocabulary) -> np.ndarray:
    """int64 (N,): the ids of a corpus in that vocabulary, UNKNOWN where it has none."""
    if corpus.vocabulary == vocabulary:
        return corpus.tokens.astype(np.int64)
    return vocabulary.translate(corpus.vocabulary)[corpus.tokens].astype(np.int64)


def _elements(
    bitext: Bitext, source: np.ndarray, target: np.ndarray, shapes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The source and target id of every matrix element, pair by pair and row by row."""
    tall, wide = shapes.astype(np.int64).T
    width = np.repeat(wide, tall)  # L of the pair that each target token stands in
    y = np.repeat(target, width)
    starts = np.repeat(bitext.source.offsets[:-1], tall)
    ends = np.cumsum(width)
    within = np.arange(len(y)) - np.repeat(ends - width, width)
    return source[np.repeat(starts, width) + within], y


@dataclass(frozen=True, eq=False)
class _Bags:
    """A bitext's usable pairs on the device, cut into batches of sentences."""

    source: Corpus
    target: Corpus
    device: torch.device

    def batch(self, pairs: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Source tokens and where each bag starts in them; the bag of each target token, and the tokens."""
        source, target = self.source.take(pairs), self.target.take(pairs)
        rows = np.repeat(np.arange(len(pairs)), target.lengths)
        arrays = (source.tokens.astype(np.int64), source.offsets[:-1], rows, target.tokens.astype(np.int64))
        words, starts, bags, y = (to_device(array, self.device) for array in arrays)
        return words, starts, bags, y

    def loss(self, pairs: np.ndarray, embedding: Tensor, output: Tensor) -> tuple[Tensor, int]:
        """Mean loss of the tokens of these pairs, and how many tokens there are."""
        words, starts, rows, y = self.batch(pairs)
        x = embedding_bag(words, embedding, starts, mode="mean")
        return BagLoss.apply(x, output, rows, y), len(y)


def _total_loss(bags: _Bags, pairs: np.ndarray, embedding: Tensor, output: Tensor) -> float:
    """Mean loss per token of all these pairs."""
    total, tokens = 0.0, 0
    step = batch_sizes("proxy", output.device).pairs
    with scoring_mode(output.device):
        for low in range(0, len(pairs), step):
            loss, count = bags.loss(pairs[low : low + step], embedding, output)
            total += loss.item() * count
            tokens += count
    return total / max(tokens, 1)


def fit_proxy(
    bitext: Bitext,
    valid: Bitext,
    settings: ProxySettings | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> ProxyAligner:
    """Trains the proxy; keeps the epoch with the lowest validation loss.

    Args:
        bitext: the training text; its two sides may have vocabularies of their own.
        valid: held-out text with the same vocabularies.
        settings: the paper's if not given.
        progress: called after each epoch with (epochs done, epochs, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the vocabularies of ``valid`` differ, or no pair has tokens on both sides.
    """
    settings = settings or ProxySettings()
    sides = ((bitext.source, valid.source), (bitext.target, valid.target))
    if any(one.vocabulary != other.vocabulary for one, other in sides):
        raise AlignkitError("the proxy's training and validation text must share their vocabularies")
    pairs, held = usable(bitext), usable(valid)
    if not len(pairs):
        raise AlignkitError("cannot train a proxy: no pair of the text has tokens on both sides")
    place = pick_device(device)
    embedding, output = _start(bitext, settings, place)
    bags, other = (_Bags(text.source, text.target, place) for text in (bitext, valid))
    # Without validation text, the training text itself says which epoch is best.
    judge, judged = (other, held) if len(held) else (bags, pairs)
    optimiser = torch.optim.Adam([embedding, output], lr=settings.learning_rate, fused=True)
    best = (_total_loss(judge, judged, embedding, output), embedding.detach().clone(), output.detach().clone())
    for epoch in range(settings.epochs):
        order = np.random.default_rng([settings.seed, epoch]).permutation(pairs)
        for low in range(0, len(order), settings.batch):
            optimiser.zero_grad()
            loss, _ = bags.loss(order[low : low + settings.batch], embedding, output)
            loss.backward()
            optimiser.step()
        now = _total_loss(judge, judged, embedding, output)
        if now < best[0]:
            best = (now, embedding.detach().clone(), output.detach().clone())
        if progress is not None:
            progress(epoch + 1, settings.epochs, f"proxy: validation loss {now:.3f}")
    return ProxyAligner(best[1], best[2], bitext.source.vocabulary, bitext.target.vocabulary, settings, best[0])


def _start(bitext: Bitext, settings: ProxySettings, device: torch.device) -> tuple[Tensor, Tensor]:
    """Fresh e (V_src, K) and W (V_tgt, K), as torch draws an embedding and a linear layer."""
    generator = torch.Generator().manual_seed(settings.seed)
    size = settings.embedding
    embedding = torch.randn(len(bitext.source.vocabulary), size, generator=generator)
    bound = size**-0.5
    output = torch.empty(len(bitext.target.vocabulary), size).uniform_(-bound, bound, generator=generator)
    return embedding.to(device).requires_grad_(), output.to(device).requires_grad_()
