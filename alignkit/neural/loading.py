"""The loader of checkpoints: networks, classifiers and proxies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from alignkit.aligner.protocol import Aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import ClassifierAligner, NeuralAligner
from alignkit.neural.checkpoints import BEST, CLASSIFIER, NETWORK, PROXY, checked_weights, load_payload
from alignkit.neural.classifier_settings import ClassifierRunSettings
from alignkit.neural.devices import pick_device
from alignkit.neural.networks.base import build_network
from alignkit.neural.networks.classifier import build_classifier
from alignkit.neural.proxy import ProxyAligner
from alignkit.neural.settings import ProxySettings, RunSettings, from_dict
from alignkit.text.tokenization import tokenizer_from_state
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike


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
        if not (place / BEST).exists():
            raise InputError(path, f"a folder without {BEST}, so it is not a run, or one that has only just begun")
        place = place / BEST
    payload = load_payload(place, NETWORK, PROXY, CLASSIFIER)
    try:
        if payload["header"]["kind"] == CLASSIFIER:
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


def load_classifier(payload: dict[str, Any], device: torch.device) -> ClassifierAligner:
    """The classifier in the content of a checkpoint.

    Raises:
        KeyError, TypeError, ValueError, RuntimeError, AlignkitError: the content is damaged.
    """
    settings = from_dict(ClassifierRunSettings, payload["settings"])
    tokenizer = tokenizer_from_state(payload["tokenizer"])
    if len(tokenizer.vocabulary) != settings.network.vocabulary:
        raise ValueError("the vocabularies of tokenizer and network differ in size")
    first, second = (str(name) for name in payload["labels"])
    network = build_classifier(settings.network, payload["weights"]).to(device)
    metrics = {str(name): float(value) for name, value in payload["metrics"].items()}
    step, mark = int(payload["step"]), str(payload["fingerprint"])
    return ClassifierAligner(network, tokenizer, (first, second), settings, step, metrics, mark)


def _network(payload: dict[str, Any], device: torch.device) -> NeuralAligner:
    settings = from_dict(RunSettings, payload["settings"])
    tokenizer = tokenizer_from_state(payload["tokenizer"])
    if len(tokenizer.vocabulary) != settings.network.vocabulary:
        raise ValueError("the vocabularies of tokenizer and network differ in size")
    network = build_network(settings.network, payload["weights"]).to(device)
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
