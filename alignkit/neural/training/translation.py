"""Training of translation networks, determined by a seed and resumable from any measured step; guided training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alignkit.errors import AlignkitError, check_list
from alignkit.links.links import Links
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import Batch, Batcher, to_device, usable
from alignkit.neural.networks.attention import samplers, score_function_loss
from alignkit.neural.networks.encoder_decoder import Encoding, TranslationNetwork
from alignkit.neural.scoring.evaluation import bleu, evaluate_network
from alignkit.neural.scoring.translation import chosen_map, read_weights
from alignkit.neural.settings import Reading, RunSettings, new_network
from alignkit.neural.training.run_directory import REFERENCES, TranslationRun, fingerprint
from alignkit.neural.training.trainer import Task, learn_tokenizer
from alignkit.scores import token_words
from alignkit.support.files import atomic_write
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import BOS, UNK, Tokenizer, encode_bitext, split_words
from alignkit.types import PathLike, Progress

BLEU = ("valid.bleu_greedy", "valid.bleu")  #: of one hypothesis, and of a beam
SMALLEST = 1e-9  #: added to a weight before its logarithm is taken


@dataclass(eq=False, repr=False)
class TranslationTask(Task[TranslationNetwork, NeuralAligner]):
    """Training of a translation network on a bitext; the best network has the lowest validation loss.

    Attributes:
        references: raw target lines of ``valid``, for BLEU, which is not measured without them.
        guide: links of the training text that attention is pulled towards, in ``alpha``'s reading.

    Raises:
        AlignkitError: a text is not in the tokenizer's vocabulary, or has no pair with tokens on both sides.
    """

    MEASURES_EPOCHS = True

    references: Sequence[str] = ()
    guide: Guide | None = None

    def __post_init__(self) -> None:
        for name, text in (("training", self.text), ("validation", self.valid)):
            if any(side.vocabulary != self.tokenizer.vocabulary for side in (text.source, text.target)):
                raise AlignkitError(f"the {name} text is not encoded with the tokenizer's vocabulary")
            if not len(usable(text)):
                raise AlignkitError(f"the {name} text has no pair with tokens on both sides")
        super().__post_init__()
        self._batcher = Batcher(self.bitext, self.device)

    def new_network(self) -> TranslationNetwork:
        return new_network(self.settings.network)

    def loss(self, network: TranslationNetwork, batch: np.ndarray, step: int) -> Tensor:
        """As :meth:`Task.loss`, the mean over the batch's target tokens."""
        training = self.settings.training
        uniform = step < training.warmup * self.epoch_steps
        guide = None if uniform or not training.guide_weight else self.guide
        more = {"smoothing": training.label_smoothing, "guide": guide, "guide_weight": training.guide_weight}
        return batch_loss(network, self._batcher(batch), training.word_dropout, uniform, **more)

    def measure(self, network: TranslationNetwork, step: int) -> list[tuple[str, float]]:
        loss, accuracy = evaluate_network(network, self.valid)
        values = [("valid.loss", loss), ("valid.accuracy", accuracy)]
        if self.settings.training.bleu == "logged" and step in self.logged_steps:
            values += self._bleu(network)
        return values

    def rank(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        return (metrics["valid.loss"],)

    def conclude(self, best: NeuralAligner) -> list[tuple[str, float]]:
        return self._bleu(best.network) if self.settings.training.bleu == "end" else []

    def _bleu(self, network: TranslationNetwork) -> list[tuple[str, float]]:
        if not self.references:
            return []
        texts, beams = (self.tokenizer, self.valid, self.references), (1, self.settings.training.beam)
        return [(name, bleu(network, *texts, beam)) for name, beam in zip(BLEU, beams, strict=True)]

    def message(self, epoch: int, best: Mapping[str, float]) -> str:
        epochs = self.settings.training.epochs
        return f"epoch {epoch + 1} of {epochs}, validation loss {best['valid.loss']:.3f}"

    def aligner(self, network: TranslationNetwork, step: int, metrics: dict[str, float]) -> NeuralAligner:
        fingerprint = self.bitext.fingerprint()
        return NeuralAligner(network, self.tokenizer, self.settings, step, metrics, fingerprint)


class TokenLoss(torch.autograd.Function):
    """Mean of -log softmax(W x + b)[y] over N tokens, in nats.

    ``TokenLoss.apply(x (N, H), weight (V, H), bias (V,), y int64 (N,), smoothing)`` -> scalar. With label
    smoothing, each target has the probability 1 - smoothing, and all V tokens share the rest (Szegedy et al.
    2016).

    Its gradients are computed together with its value. The (N, V) logits are by far the largest array of a step:
    turning them into their own gradient in place takes as few passes over them as possible, where autograd would
    keep a second and a third array of that size.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, y: Tensor, smoothing: float) -> Tensor:
        logits = torch.addmm(bias, x, weight.t())
        even = torch.logsumexp(logits, 1) - logits.mean(1) if smoothing else None
        torch.softmax(logits, 1, out=logits)
        # A probability that underflows to 0 counts as the smallest float32 number; the gradient is still right.
        loss = -logits.gather(1, y.unsqueeze(1)).clamp_min_(torch.finfo(logits.dtype).tiny).log_().mean()
        # d loss / d logits = (softmax - target distribution) / N
        rows = torch.arange(len(y), device=y.device)
        logits[rows, y] -= 1.0 - smoothing
        if even is not None:
            loss = (1 - smoothing) * loss + smoothing * even.mean()
            logits -= smoothing / logits.shape[1]
        logits /= max(len(y), 1)
        ctx.save_for_backward(logits.mm(weight), logits.t().mm(x), logits.sum(0))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient.mul_(grads[0]) for gradient in ctx.saved_tensors), None, None)


def batch_loss(
    network: TranslationNetwork,
    batch: Batch,
    word_dropout: float = 0.0,
    uniform: bool = False,
    *,
    smoothing: float = 0.0,
    guide: Guide | None = None,
    guide_weight: float = 0.0,
) -> Tensor:
    """Mean loss over the target tokens of a batch, nats; padding does not reach the output layer.

    Args:
        network: in training mode.
        batch: pairs of the training text.
        word_dropout: the share of the decoder's input that is replaced by unk, except BOS.
        uniform: use uniform attention, 1/L, in place of the learned one; without ``guide``.
        smoothing: of the labels.
        guide, guide_weight: links towards which attention is pulled by a further loss, and its weight.
    """
    previous = batch.previous
    if word_dropout:
        hidden = torch.rand(previous.shape, device=previous.device) < word_dropout
        previous = previous.masked_fill(hidden & (previous != BOS), UNK)
    encoding = network.encode(batch.source, batch.source_lengths)
    if guide is not None:
        x, weights = _guided_pass(network, encoding, batch, previous)
    else:
        x = network.decode(previous, encoding, encoding.start, uniform).features
    x = x.flatten(0, 1)
    if len(batch.places) < len(x):
        x = x[batch.places]
    loss: Tensor = TokenLoss.apply(x, network.output.weight, network.output.bias, batch.targets, smoothing)
    if any(True for _ in samplers(network)):
        losses = cross_entropy(network.output(x.detach()), batch.targets, reduction="none")
        loss = loss + score_function_loss(network, losses, batch.places)
    if guide is not None:
        loss = loss + guide_weight * guide_loss(weights, guide.matrices(batch))
    return loss


def _guided_pass(
    network: TranslationNetwork, encoding: Encoding, batch: Batch, previous: Tensor
) -> tuple[Tensor, Tensor]:
    """Features (B, T, F) for the decoder's input ``previous``, and the weights (B, T, L) of the reading."""
    reading = network.settings.reading
    if reading == Reading():
        decoded = network.decode(previous, encoding, encoding.start)
        return decoded.features, decoded.weights
    if not reading.shifted:
        decoded, maps = network.decode_with_maps(previous, encoding)
        return decoded.features, chosen_map(maps, reading)
    if previous is not batch.previous:  # words were dropped, which are not to be aligned
        features = network.decode(previous, encoding, encoding.start).features
        return features, read_weights(network, encoding, batch, reading)
    # One pass over BOS y_1 .. y_T gives both: its first T steps predict y_1 .. y_T, its last T have them as input.
    decoded, maps = network.decode_with_maps(torch.cat([previous, batch.target[-1:]]), encoding)
    return decoded.features[:, :-1], chosen_map(maps, reading)[:, 1:]


@dataclass(frozen=True, eq=False)
class Guide:
    """For every sentence pair, the distribution that each linked target token's attention is to have.

    Attributes:
        offsets: int64 (M + 1,), the first element of each pair.
        rows, columns: int64 (K,), target and source token.
        weights: float32 (K,), 1 / the number of source tokens that the target token is linked to.
    """

    offsets: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray

    def matrices(self, batch: Batch) -> Tensor:
        """(B, T, L): the distributions for a batch; rows of tokens without links, and of padding, are zeros."""
        length, size = batch.source.shape
        wanted = np.zeros((size, len(batch.target), length), np.float32)
        for place, m in enumerate(batch.pairs.tolist()):
            part = slice(self.offsets[m], self.offsets[m + 1])
            wanted[place, self.rows[part], self.columns[part]] = self.weights[part]
        return to_device(wanted, batch.source.device)


def word_guide(links: Links, text: LinePairs, bitext: Bitext, tokenizer: Tokenizer) -> Guide:
    """The guide that links between whitespace words give: a token is linked to all tokens of the linked words.

    Args:
        links: of M pairs of lines.
        text: the lines.
        bitext: the lines as the tokenizer encoded them.
        tokenizer: the network's.

    Raises:
        AlignkitError: the numbers of pairs differ, or a link is outside of its pair.
    """
    if len(links) != len(bitext):
        problem = f"the guide has links of {len(links)} sentence pairs"
        raise AlignkitError(f"{problem}, the training text has {len(bitext)}")
    rows, columns, weights, sizes = [], [], [], [0]
    for m, pairs in enumerate(links):
        of_source = _tokens_by_word(tokenizer, text.source[m], bitext.source[m])
        of_target = _tokens_by_word(tokenizer, text.target[m], bitext.target[m])
        linked: dict[int, list[int]] = {}
        for s, t in pairs.tolist():
            if s >= len(of_source) or t >= len(of_target):
                shape = f"{len(of_source)} source and {len(of_target)} target words"
                raise AlignkitError(f"guide[{m}] has the link {s}-{t}; the pair has {shape}")
            for token in of_target[t]:
                linked.setdefault(token, []).extend(of_source[s])
        for token, sources in linked.items():
            rows += [token] * len(sources)
            columns += sources
            weights += [1 / len(sources)] * len(sources)
        sizes.append(len(rows))
    arrays = np.array(rows, np.int64), np.array(columns, np.int64), np.array(weights, np.float32)
    return Guide(np.array(sizes, np.int64), *arrays)


def _tokens_by_word(tokenizer: Tokenizer, line: str, ids: Sequence[int] | np.ndarray) -> list[list[int]]:
    """The tokens of every whitespace word of an encoded line."""
    words = token_words(tokenizer, line, np.asarray(ids))
    by_word: list[list[int]] = [[] for _ in split_words(line)]
    for token, word in enumerate(words.tolist()):
        if word >= 0:
            by_word[word].append(token)
    return by_word


def guide_loss(weights: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy between given distributions and attention, the mean over the rows by their sums, nats.

    Weights that are exactly 0, as sparse normalizers give them, have no gradient.

    Args:
        weights: (B, T, L), the attention.
        wanted: (B, T, L), of :meth:`Guide.matrices`.
    """
    losses = -(wanted * torch.log(weights + SMALLEST)).sum(2)
    return losses.sum() / wanted.sum().clamp_min(SMALLEST)


def train_translation(
    run_dir: PathLike,
    text: LinePairs,
    valid: LinePairs,
    settings: RunSettings,
    progress: Progress | None = None,
    device: str = "auto",
    guide: Links | None = None,
) -> NeuralAligner:
    """Train a network in a run directory, or resume an interrupted run.

    On one machine, with the same versions and number of threads, an interrupted run ends with the same bits as an
    uninterrupted one. A finished run is not trained again.

    Args:
        run_dir: created if it does not exist.
        text: raw training text.
        valid: raw held-out text.
        settings: of text, network and training.
        progress: called after every step with (steps done, steps in all, message).
        device: as :func:`alignkit.neural.devices.pick_device`.
        guide: links between the words of ``text`` that attention is pulled towards (guided training).

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: the directory contains something else, or a run with other settings or text; the two sides
            of a text differ in length, or are strings; there is no such device.
    """
    parts = {"training": text, "validation": valid}
    for name, part in parts.items():
        for side in part:
            check_list(side, f"the {name} text must have a list of lines on each side")
        if len(part.source) != len(part.target):
            lines = f"{len(part.source)} source and {len(part.target)} target lines"
            raise AlignkitError(f"the {name} text has {lines}")
    run = TranslationRun(run_dir)
    described = {name: {"pairs": len(p.source), "sha256": fingerprint(*p)} for name, p in parts.items()}
    if guide is not None:
        described["guide"] = {"links": len(guide.pairs), "sha256": fingerprint(guide.to_strings())}

    state = run.open({"settings": asdict(settings), "text": described}, device)
    if state is not None:
        training, held, tokenizer = run.encoded_texts(state)
    else:
        tokenizer = learn_tokenizer([*text.source, *text.target], settings.text)
        training, held = (encode_bitext(tokenizer, *part) for part in (text, valid))
        with atomic_write(run.path / REFERENCES) as stream:
            for line in valid.target:
                stream.write(line.replace("\n", " ").encode("utf-8", "surrogatepass") + b"\n")
    own = None if guide is None else word_guide(guide, text, training, tokenizer)
    task = TranslationTask(training, held, settings, tokenizer, valid.target, own, device=device)
    return run.complete(task, state, device, progress)
