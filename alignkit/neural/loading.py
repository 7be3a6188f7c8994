"""The loader of checkpoints: networks, classifiers and proxies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from alignkit.aligner import Aligner
from alignkit.errors import InputError
from alignkit.neural.aligners import ClassifierAligner, NeuralAligner
from alignkit.neural.checkpoints import BEST, CLASSIFIER, NETWORK, PROXY, checked_weights, load_payload, readable
from alignkit.neural.classifier_settings import ClassifierRunSettings
from alignkit.neural.devices import pick_device
from alignkit.neural.networks.base import build_network
from alignkit.neural.networks.classifier import build_classifier
from alignkit.neural.proxy import ProxyAligner
from alignkit.neural.settings import ProxySettings, RunSettings, from_dict
from alignkit.records import Record
from alignkit.text.tokenization import Tokenizer, tokenizer_from_state
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

_MOST_NAMED = 6  # runs that an error names


def load_checkpoint(path: PathLike, device: str = "auto") -> Aligner:
    """Read a checkpoint (.pt), or the best network so far of a run directory.

    Returns:
        a :class:`NeuralAligner`, :class:`ClassifierAligner` or :class:`ProxyAligner`, whichever the file holds.

    Raises:
        InputError: the file is missing, damaged, contains code, or is of another kind or version.
        AlignkitError: there is no such device.
    """
    place = Path(path)
    if place.is_dir():
        place = best_checkpoint(place)
    payload, where = load_payload(place, NETWORK, PROXY, CLASSIFIER), pick_device(device)
    loaders: dict[str, Callable[[Record, torch.device], Aligner]]
    loaders = {NETWORK: _network, PROXY: _proxy, CLASSIFIER: _classifier}
    load = loaders[payload["header"]["kind"]]
    with readable(place):
        return load(Record(place, payload), where)


def best_checkpoint(run: Path) -> Path:
    """The file of the best network so far of a run directory.

    Raises:
        InputError: the folder has none; the message names the runs in the folder, if there are any.
    """
    if run.is_dir() and not (run / BEST).exists():
        inner = [str(place.parent) for place in sorted(run.glob(f"*/{BEST}"))]
        if inner:
            more = ", ..." if len(inner) > _MOST_NAMED else ""
            raise InputError(run, f"is not a run; give one of those in it: {', '.join(inner[:_MOST_NAMED])}{more}")
        raise InputError(run, f"a folder without {BEST}, so it is not a run, or one that has only just begun")
    return run / BEST


def _classifier(content: Record, device: torch.device) -> ClassifierAligner:
    settings = from_dict(ClassifierRunSettings, content.value("settings"))
    tokenizer = _tokenizer(content, settings.network.vocabulary)
    first, second = content.texts("labels", 2)
    network = build_classifier(settings.network, content.value("weights")).to(device)
    return ClassifierAligner(network, tokenizer, (first, second), settings, **_training(content))


def _network(content: Record, device: torch.device) -> NeuralAligner:
    settings = from_dict(RunSettings, content.value("settings"))
    tokenizer = _tokenizer(content, settings.network.vocabulary)
    network = build_network(settings.network, content.value("weights")).to(device)
    return NeuralAligner(network, tokenizer, settings, **_training(content))


def _tokenizer(content: Record, size: int) -> Tokenizer:
    tokenizer = tokenizer_from_state(content.value("tokenizer"))
    if len(tokenizer.vocabulary) != size:
        raise ValueError("the vocabularies of tokenizer and network differ in size")
    return tokenizer


def _training(content: Record) -> dict[str, Any]:
    """Where and on what the network was trained: ``step``, ``metrics`` and ``fingerprint``."""
    measured = content.part("metrics")
    metrics = {name: measured.number(name) for name in measured}
    return {"step": content.whole("step"), "metrics": metrics, "fingerprint": content.text("fingerprint")}


def _proxy(content: Record, device: torch.device) -> ProxyAligner:
    weights = checked_weights(content.value("weights"))
    source, target = (Vocabulary.from_tokens(content.texts(side)) for side in ("source", "target"))
    settings = from_dict(ProxySettings, content.value("settings"))
    shapes = {"embedding": (len(source), settings.embedding), "output": (len(target), settings.embedding)}
    if {name: tuple(weight.shape) for name, weight in weights.items()} != shapes:
        raise ValueError("the weights do not fit the vocabularies")
    embedding, output = (weights[name].to(device) for name in shapes)
    loss, mark = content.number("loss"), content.text("fingerprint")
    return ProxyAligner(embedding, output, source, target, settings, loss, mark)
