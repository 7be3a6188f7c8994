"""The bag-of-words proxy of a text that networks were trained on, kept beside them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import NeuralAligner, load_checkpoint
from alignkit.neural.proxy import ProxyAligner, fit_proxy
from alignkit.neural.settings import PROXY_PRESETS, ProxySettings
from alignkit.neural.training.translation import TranslationRun
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

PROXY_CACHE, BIASED_PROXY_CACHE = "proxy.pt", "proxy-bias.pt"  #: in a run directory


def proxy_of(
    network: NeuralAligner,
    run: TranslationRun | None,
    training: Bitext,
    valid: Bitext,
    *,
    progress: Progress | None = None,
    device: str = "auto",
    **options: Any,
) -> ProxyAligner:
    """The proxy of the text that a network was trained on, kept in the network's run directory.

    Args:
        network: its size says which preset the proxy has.
        run: where to keep the proxy; None to train it in any case.
        training: the text.
        valid: says which epoch is the best. Without the run's validation text, the scored pairs do.
        progress, device: as in :func:`alignkit.neural.proxy.fit_proxy`.
        **options: fields of :class:`alignkit.neural.settings.ProxySettings`; None stands for the preset's.
    """
    preset = PROXY_PRESETS["paper" if network.settings.network.embedding >= 256 else "small"]
    settings = replace(preset, **{name: value for name, value in options.items() if value is not None})
    name = BIASED_PROXY_CACHE if settings.bias else PROXY_CACHE
    cache = run.path / name if run is not None else None
    return fit_or_load_proxy(cache, training, valid, settings, progress, device)


def fit_or_load_proxy(
    cache: Path | None,
    training: Bitext,
    valid: Bitext,
    settings: ProxySettings,
    progress: Progress | None = None,
    device: str = "auto",
) -> ProxyAligner:
    """The proxy of a text: read from ``cache`` if that holds one of these settings and this text, else trained.

    One that is trained is written to the cache.

    Args:
        cache: a .pt file beside the text it belongs to, or None to train in any case.
        training, valid, settings, progress, device: as in :func:`alignkit.neural.proxy.fit_proxy`.
    """
    wanted = settings, training.fingerprint()
    if cache is not None and cache.exists():
        with suppress(AlignkitError):  # a damaged cache is trained again
            found = load_checkpoint(cache, device)
            if isinstance(found, ProxyAligner) and (found.settings, found.fingerprint) == wanted:
                return found
    proxy = fit_proxy(training, valid, settings, progress, device)
    if cache is not None:
        with suppress(AlignkitError):  # a run that cannot be written to can be compared all the same
            proxy.save(cache)
    return proxy
