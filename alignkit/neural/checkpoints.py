"""The trained network as an aligner, and the loader of saved networks and proxies."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alignkit.aligner import Aligner, check_kind
from alignkit.bitext import Bitext, Corpus
from alignkit.errors import AlignkitError, InputError
from alignkit.neural.devices import pick_device
from alignkit.neural.evaluation import log_probabilities
from alignkit.neural.payloads import (
    CLASSIFIER,
    NETWORK,
    PROXY,
    checked_weights,
    load_payload,
    save_payload,
    weights_of,
)
from alignkit.neural.probes import attention_scores, lexical_scores
from alignkit.neural.proxy import ProxyAligner
from alignkit.neural.saliency import leave_one_out_scores, saliency_scores
from alignkit.neural.seq2seq import EncoderDecoder
from alignkit.neural.settings import NetworkSettings, ProxySettings, RunSettings, from_dict, to_dict
from alignkit.scores import Scores
from alignkit.tokenization import SPECIALS, UNK, Tokenizer, tokenizer_from_state
from alignkit.vocabulary import UNKNOWN, Vocabulary

BEST = "best.pt"  #: the network with the lowest validation loss, in a run directory
#: score kind -> what computes it
SCORES: dict[str, Callable[[EncoderDecoder, Bitext], Scores]] = {
    "alpha": attention_scores,
    "beta": lexical_scores,
    "delta": saliency_scores,
    "loo": leave_one_out_scores,
}


@dataclass(frozen=True, eq=False)
class NeuralAligner:
    """A trained encoder-decoder as an aligner.

    Attributes:
        network: in evaluation mode, on the device it computes on.
        tokenizer: encodes text as the network was trained on.
        settings: of text, network and training.
        step: training steps behind it.
        metrics: what was measured at that step, as ``valid.loss``.
        fingerprint: of the bitext it was trained on (:meth:`Bitext.fingerprint`).
    """

    network: EncoderDecoder = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    settings: RunSettings
    step: int
    metrics: dict[str, float]
    fingerprint: str

    @property
    def name(self) -> str:
        """``lstm``, or ``uniform`` for a network that was trained with uniform attention."""
        return "uniform" if self.network.settings.attention == "uniform" else "lstm"

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(SCORES)

    def score(self, bitext: Bitext, kind: str) -> Scores:
        """The (T, L) matrix of every pair; tokens that the network does not know count as unk.

        Raises:
            AlignkitError: no such kind, or the tokens are of another make than the network's.
        """
        check_kind(self, kind)
        vocabulary = self.tokenizer.vocabulary
        own = Bitext(reencode(bitext.source, vocabulary), reencode(bitext.target, vocabulary))
        return SCORES[kind](self.network, own)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair under teacher forcing, EOS included."""
        vocabulary = self.tokenizer.vocabulary
        own = Bitext(reencode(bitext.source, vocabulary), reencode(bitext.target, vocabulary))
        return log_probabilities(self.network, own)

    def to(self, device: str) -> NeuralAligner:
        """This aligner with its network moved to the device (``auto``: a GPU where there is one)."""
        self.network.to(pick_device(device))
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint; raises AlignkitError if the name does not end in .pt."""
        save_payload(
            path,
            NETWORK,
            {
                "settings": to_dict(self.settings),
                "step": self.step,
                "tokenizer": self.tokenizer.state(),
                "metrics": dict(self.metrics),
                "fingerprint": self.fingerprint,
                "weights": weights_of(self.network),
            },
        )


def reencode(corpus: Corpus, vocabulary: Vocabulary) -> Corpus:
    """The corpus in another vocabulary; tokens that it lacks become unk.

    Raises:
        AlignkitError: hardly any type of the corpus is known, so it was cut into tokens in another way.
    """
    if corpus.vocabulary == vocabulary:
        return corpus
    table = vocabulary.translate(corpus.vocabulary)
    used = np.unique(corpus.tokens)
    special = {corpus.vocabulary.id(token) for token in SPECIALS}
    words = used[~np.isin(used, list(special))]
    known = int((table[words] != UNKNOWN).sum())
    # A sentence or two of rare words is no evidence; a text of which nothing is known is.
    if len(words) >= 20 and known * 10 < len(words):
        raise AlignkitError(
            f"the network knows {known} of the {len(words)} different tokens of this text: "
            "encode the text with the tokenizer of the checkpoint"
        )
    table = np.where(table == UNKNOWN, UNK, table).astype(np.int32)
    return Corpus(table[corpus.tokens], corpus.offsets, vocabulary)


def load_aligner(path: str | os.PathLike[str], device: str = "auto") -> Aligner:
    """Reads a checkpoint (.pt) or a run directory (then its best network so far).

    Returns:
        a :class:`NeuralAligner`, a :class:`ProxyAligner` or a
        :class:`alignkit.neural.classifier_scores.ClassifierAligner`, whichever the file holds.

    Raises:
        InputError: missing, damaged, with code in it, of another kind or version.
        AlignkitError: there is no such device.
    """
    place = Path(path)
    if place.is_dir():
        if not (place / BEST).exists():
            raise InputError(path, f"a folder without {BEST}, so not a run, or one that has just begun")
        place = place / BEST
    payload = load_payload(place, NETWORK, PROXY, CLASSIFIER)
    try:
        if payload["header"]["kind"] == CLASSIFIER:
            from alignkit.neural.classifier_scores import load_classifier

            return load_classifier(payload, pick_device(device))
        if payload["header"]["kind"] == PROXY:
            return _proxy(payload, pick_device(device))
        return _network(payload, pick_device(device))
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(place, f"damaged: {problem}") from error
    except AlignkitError as error:
        if isinstance(error, InputError) or str(error).startswith("cannot compute"):
            raise
        raise InputError(place, f"damaged: {error}") from error


def build(settings: NetworkSettings, weights: object) -> EncoderDecoder:
    """A network of these settings and weights, in evaluation mode.

    Raises:
        RuntimeError: names or shapes of the weights do not fit the settings.
        ValueError: a weight is not finite float32.
    """
    with torch.device("meta"):  # no memory yet: the settings of a damaged file may ask for any amount
        network = EncoderDecoder(settings)
    network.load_state_dict(checked_weights(weights), assign=True)
    # Tensors that were read must be trainable parameters again, in one block for oneDNN and cuDNN.
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    return network.eval()


def _network(payload: dict[str, Any], device: torch.device) -> NeuralAligner:
    settings = from_dict(RunSettings, payload["settings"])
    tokenizer = tokenizer_from_state(payload["tokenizer"])
    if len(tokenizer.vocabulary) != settings.network.vocabulary:
        raise ValueError("tokenizer and network differ in the size of the vocabulary")
    network = build(settings.network, payload["weights"]).to(device)
    metrics = {str(name): float(value) for name, value in payload["metrics"].items()}
    return NeuralAligner(network, tokenizer, settings, int(payload["step"]), metrics, str(payload["fingerprint"]))


def _proxy(payload: dict[str, Any], device: torch.device) -> ProxyAligner:
    weights = checked_weights(payload["weights"])
    return ProxyAligner(
        weights["embedding"].to(device),
        weights["output"].to(device),
        Vocabulary.from_tokens(payload["source"]),
        Vocabulary.from_tokens(payload["target"]),
        from_dict(ProxySettings, payload["settings"]),
        float(payload["loss"]),
    )
