"""Training of the encoder-decoder: deterministic in its seed, and able to go on from any measured step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alignkit.bitext import Bitext
from alignkit.errors import AlignkitError
from alignkit.neural.batching import Batcher, training_batches, usable
from alignkit.neural.checkpoints import NeuralAligner, build
from alignkit.neural.devices import pick_device, precision
from alignkit.neural.evaluation import bleu, evaluate
from alignkit.neural.log import Row, TrainingLog
from alignkit.neural.losses import TokenLoss
from alignkit.neural.payloads import weights_of
from alignkit.neural.seq2seq import EncoderDecoder
from alignkit.neural.settings import RunSettings, logged_steps
from alignkit.tokenization import BOS, UNK, Tokenizer

Progress = Callable[[int, int, str], None]  #: (done, total, message)


class Training:
    """A training run in progress: everything that its next step depends on.

    Attributes:
        network: as trained so far.
        step: steps taken.
        last: steps in all.
        log: what was measured.
        best: the network with the lowest validation loss so far.
        finished: nothing is left to do.
    """

    def __init__(
        self,
        bitext: Bitext,
        valid: Bitext,
        settings: RunSettings,
        tokenizer: Tokenizer,
        references: Sequence[str] = (),
        device: str = "auto",
    ) -> None:
        """Begins a run.

        Args:
            bitext: training text; both sides in the tokenizer's vocabulary.
            valid: held-out text, likewise.
            settings: the size of the vocabulary is filled in from the tokenizer.
            tokenizer: what encoded the text.
            references: raw target lines of ``valid``, for BLEU; without them there is none.
            device: as :func:`alignkit.neural.devices.pick_device`.

        Raises:
            AlignkitError: another vocabulary, or a text without a pair that has tokens on both sides.
        """
        _check_text(bitext, valid, tokenizer)
        self.bitext, self.valid, self.tokenizer, self.references = bitext, valid, tokenizer, references
        self.settings = settings.change(network={"vocabulary": len(tokenizer.vocabulary)})
        self.device = pick_device(device)
        self.fingerprint = bitext.fingerprint()
        plan = self.settings.training
        self.epoch_steps = len(training_batches(bitext, plan.batch, plan.seed, 0, plan.buckets))
        most = plan.epochs * self.epoch_steps
        self.last = most if plan.steps is None else min(most, plan.steps)
        self.logged = set(logged_steps(self.last, plan.schedule))
        self.step, self.log, self.finished = 0, TrainingLog(), False
        with _seeded(plan.seed, 0, self.device):
            self.network = EncoderDecoder(self.settings.network).to(self.device)
        self._optimise()
        self.best: NeuralAligner | None = None
        self._loss = torch.zeros((), device=self.device)
        self._since = 0
        self._batcher = Batcher(bitext, self.device)

    def _optimise(self) -> None:
        # One fused pass over parameters, gradients and moments: a quarter of the time on a CPU.
        rate = self.settings.training.learning_rate
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=rate, fused=True)

    def run(
        self, commit: Callable[[Training, bool], None] | None = None, progress: Progress | None = None
    ) -> NeuralAligner:
        """Trains to the end, or goes on from where :meth:`restore` put it, to the same bits.

        Args:
            commit: called with this run and whether the network is the best so far, at every measured step;
                it may keep :meth:`state`.
            progress: called after every step with (steps done, steps in all, message).

        Returns:
            the network with the lowest validation loss.
        """
        plan = self.settings.training
        with precision(self.device, plan.tf32):
            if not self.log.rows:
                self._measure(commit)
            while self.step < self.last:
                epoch = self.step // self.epoch_steps
                batches = training_batches(self.bitext, plan.batch, plan.seed, epoch, plan.buckets)
                for pairs in batches[self.step % self.epoch_steps :][: self.last - self.step]:
                    self._train(pairs)
                    if self.step in self.logged or self.step % self.epoch_steps == 0:
                        self._measure(commit)
                    if progress is not None:
                        progress(self.step, self.last, self._message(epoch))
        if not self.finished:
            self._finish(commit)
        assert self.best is not None
        return self.best

    def _train(self, pairs: np.ndarray) -> None:
        """One step of Adam on the mean loss of the batch's target tokens."""
        # The seed of dropout follows from the step, so no state of a generator has to be kept.
        plan = self.settings.training
        uniform = self.step < plan.warmup * self.epoch_steps
        with _seeded(plan.seed, self.step + 1, self.device):
            self.network.train()
            self.optimiser.zero_grad()
            loss = batch_loss(self.network, self._batcher, pairs, word_dropout=plan.word_dropout, uniform=uniform)
            loss.backward()
            self.optimiser.step()
        self._loss += loss.detach()
        self._since += 1
        self.step += 1

    def _measure(self, commit: Callable[[Training, bool], None] | None) -> None:
        """Evaluates, logs, keeps the network if it is the best, and commits."""
        values = [("train.loss", self._loss.item() / self._since)] if self._since else []
        self._loss.zero_()
        self._since = 0
        result = evaluate(self.network, self.valid)
        values += [("valid.loss", result.loss), ("valid.accuracy", result.accuracy)]
        if self.settings.training.bleu == "logged" and self.step in self.logged:
            values += self._bleu(self.network)
        improved = self.best is None or result.loss < self.best.metrics["valid.loss"]
        self.log = self.log.add(self.step, values)
        if improved:
            self.best = self.snapshot()
        if commit is not None:
            commit(self, improved)

    def _finish(self, commit: Callable[[Training, bool], None] | None) -> None:
        assert self.best is not None
        if self.settings.training.bleu == "end":
            self.log = self.log.add(self.best.step, self._bleu(self.best.network))
        self.finished = True
        if commit is not None:
            commit(self, False)

    def _bleu(self, network: EncoderDecoder) -> list[tuple[str, float]]:
        if not self.references:
            return []
        beam = self.settings.training.beam
        names = (("valid.bleu_greedy", 1), ("valid.bleu", beam))
        return [(n, bleu(network, self.tokenizer, self.valid, self.references, k)) for n, k in names]

    def _message(self, epoch: int) -> str:
        assert self.best is not None
        best = self.best.metrics["valid.loss"]
        return f"epoch {epoch + 1} of {self.settings.training.epochs}, validation loss {best:.3f}"

    def snapshot(self) -> NeuralAligner:
        """The network as it is now, as an aligner that further training does not change."""
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        metrics = {row.name: row.value for row in self.log.rows if row.step == self.step}
        network = build(self.settings.network, weights)
        return NeuralAligner(network, self.tokenizer, self.settings, self.step, metrics, self.fingerprint)

    def state(self) -> dict[str, Any]:
        """What :meth:`restore` needs, in plain values and tensors; to be taken at a measured step."""
        assert self.best is not None
        assert self._since == 0
        return {
            "step": self.step,
            "weights": weights_of(self.network),
            "optimiser": self.optimiser.state_dict(),
            "log": [list(row) for row in self.log.rows],
            "finished": self.finished,
        }

    def restore(self, state: dict[str, Any], best: NeuralAligner) -> None:
        """Goes back to where :meth:`state` was taken.

        Args:
            state: what it gave.
            best: the best network at that step, or a later one, which training will come to again.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: the state is damaged or of another network.
        """
        self.network = build(self.settings.network, state["weights"]).to(self.device)
        self._optimise()
        self.optimiser.load_state_dict(state["optimiser"])
        self.log = TrainingLog(tuple(Row(int(s), str(n), float(v)) for s, n, v in state["log"]))
        self.step, self.finished = int(state["step"]), bool(state["finished"])
        step, loss = self.log.best("valid.loss")
        self.best = best if best.step == step else _as_of(best, step, loss)


def _as_of(best: NeuralAligner, step: int, loss: float) -> NeuralAligner:
    """A best network from after the state: it counts as the state's, until training comes to it again."""
    from dataclasses import replace

    return replace(best, step=step, metrics={**best.metrics, "valid.loss": loss})


def batch_loss(
    network: EncoderDecoder,
    batcher: Batcher,
    pairs: np.ndarray,
    *,
    word_dropout: float = 0.0,
    uniform: bool = False,
) -> Tensor:
    """Mean loss over the real target tokens of these pairs, nats; only they reach the output layer.

    Args:
        network: in training mode.
        batcher: of the training text.
        pairs: the batch.
        word_dropout: the share of the decoder's input, BOS apart, that is replaced by unk.
        uniform: attention is 1/L, whatever has been learned.
    """
    batch = batcher(pairs)
    previous = batch.previous
    if word_dropout:
        hidden = torch.rand(previous.shape, device=previous.device) < word_dropout
        previous = previous.masked_fill(hidden & (previous != BOS), UNK)
    x = network(batch.source, batch.source_lengths, previous, uniform).flatten(0, 1)
    if len(batch.places) < len(x):
        x = x[batch.places]
    loss: Tensor = TokenLoss.apply(x, network.output.weight, network.output.bias, batch.targets)
    return loss


def fit_network(
    bitext: Bitext,
    valid: Bitext,
    settings: RunSettings,
    tokenizer: Tokenizer,
    references: Sequence[str] = (),
    progress: Progress | None = None,
    device: str = "auto",
) -> NeuralAligner:
    """Trains a network in memory, with no run directory; arguments as :class:`Training`."""
    return Training(bitext, valid, settings, tokenizer, references, device).run(progress=progress)


def _check_text(bitext: Bitext, valid: Bitext, tokenizer: Tokenizer) -> None:
    for name, text in (("training", bitext), ("validation", valid)):
        if any(side.vocabulary != tokenizer.vocabulary for side in (text.source, text.target)):
            raise AlignkitError(f"the {name} text is not encoded with the tokenizer's vocabulary")
        if not len(usable(text)):
            raise AlignkitError(f"the {name} text has no pair with tokens on both sides")


@contextmanager
def _seeded(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Random numbers that (seed, step) decides; the program's own stream is left as it was."""
    number = int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(number)
        yield
