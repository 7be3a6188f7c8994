"""Classical against neural: IBM Model 1, the proxy and the network on the same tokens (Snell et al., section 3).

The paper's claim: A(lstm.alpha, ibm1.beta), A(lstm.alpha, proxy.beta) and A(uniform.beta, proxy.beta) stand
above chance, since attention learns early what co-occurs, as IBM Model 1 does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.analysis.time_course import load_network
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.interop.other_systems import ExternalScores, read_scores
from alignkit.interop.projection import is_between_tokens, project_scores, scores_without_specials, word_shapes
from alignkit.metrics.protocol import PERCENT, MetricSettings
from alignkit.metrics.registry import metric_table
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.loading import load_checkpoint
from alignkit.neural.proxy import ProxyAligner, fit_proxy
from alignkit.neural.settings import PROXY_PRESETS, ProxySettings
from alignkit.neural.training.translation_run import LinePairs, TranslationRun, find_run
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, str], None]
PROXY_CACHE = "proxy.pt"  #: in a run directory


@dataclass(frozen=True)
class CompareSettings:
    """What is compared, and how.

    Attributes:
        iterations: EM iterations of IBM 1; 1 without NULL is the paper's count-based Trans.
        null: whether IBM 1 has NULL.
        ibm_alpha: also score IBM 1's posterior, ``ibm1.alpha``.
        delta: also score the network's saliency, ``lstm.delta``.
        percent: the top of a row, in per cent.
        seed: of the bootstrap.
        threads: of the classical part; no result depends on it.
    """

    iterations: int = IBM1Settings.iterations
    null: bool = False
    ibm_alpha: bool = False
    delta: bool = False
    percent: float | str | Fraction = PERCENT
    seed: int = 0
    threads: int | None = field(default=None, compare=False)


def compare(
    network: NeuralAligner,
    proxy: ProxyAligner,
    training: Bitext,
    pairs: Bitext,
    settings: CompareSettings | None = None,
    uniform: NeuralAligner | None = None,
    others: Mapping[str, ExternalScores] | None = None,
) -> pd.DataFrame:
    """Scores ``pairs`` with every aligner and agrees each with each.

    Args:
        network: trained with attention.
        proxy: trained on ``training``.
        training: the text that IBM 1 is fitted on: the network's own, with the network's tokens.
        pairs: the M pairs to score, encoded alike.
        settings: defaults if not given.
        uniform: a network trained with uniform attention on the same tokens.
        others: name -> alpha scores of other systems. If any is of words, and not of the network's tokens, nothing
            is compared on BOS and EOS.

    Returns:
        the table of :func:`alignkit.metrics.registry.metric_table`.

    Raises:
        AlignkitError: ``uniform`` works on other tokens, or was trained with attention.
    """
    settings = settings or CompareSettings()
    scores = dict(_scores(network, proxy, training, pairs, settings))
    if uniform is not None:
        if uniform.name != "uniform":
            raise AlignkitError("the second network was not trained with uniform attention")
        if uniform.tokenizer.vocabulary != network.tokenizer.vocabulary:
            raise AlignkitError("the two networks do not share their tokens; train both on the same text")
        scores["uniform.beta"] = uniform.score(pairs, "beta")
    if others:
        scores = with_others(scores, pairs, others)
    chosen = MetricSettings(percent=settings.percent, seed=settings.seed, threads=settings.threads)
    return metric_table(scores, settings=chosen)


def _scores(
    network: NeuralAligner, proxy: ProxyAligner, training: Bitext, pairs: Bitext, settings: CompareSettings
) -> list[tuple[str, Scores]]:
    ibm1 = fit_ibm1(training, iterations=settings.iterations, null=settings.null, threads=settings.threads)
    scored = [("ibm1.beta", ibm1.score(pairs, "beta"))]
    if settings.ibm_alpha:
        scored.append(("ibm1.alpha", ibm1.score(pairs, "alpha")))
    scored.append(("proxy.beta", proxy.score(pairs, "beta")))
    kinds = ("alpha", "beta", "delta") if settings.delta else ("alpha", "beta")
    scored += [(f"{network.name}.{kind}", network.score(pairs, kind)) for kind in kinds]
    return scored


def with_others(
    scores: Mapping[str, Scores], pairs: Bitext, others: Mapping[str, ExternalScores]
) -> dict[str, Scores]:
    """The scores with those of other systems beside them, as ``NAME.alpha``, on the same tokens.

    Raises:
        AlignkitError: a name is taken, or scores are not of these pairs.
    """
    named = {name if name.endswith(".alpha") else f"{name}.alpha": found for name, found in others.items()}
    if len(named) < len(others) or set(named) & set(scores):
        raise AlignkitError(f"scores from elsewhere need names of their own; taken are {', '.join(scores)}")
    joined = {**scores, **{name: project_scores(found, pairs) for name, found in named.items()}}
    if all(is_between_tokens(found, pairs) for found in named.values()):
        return joined
    return {name: scores_without_specials(each, pairs) for name, each in joined.items()}


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_networks` found.

    Attributes:
        table: as :func:`compare` returns it.
        network: the one with attention.
        training: the text that everything was fitted on.
        pairs: the text that was scored.
    """

    table: pd.DataFrame
    network: NeuralAligner
    training: Bitext
    pairs: Bitext


def compare_networks(
    neural: str,
    uniform: str | None = None,
    *,
    pairs: LinePairs | None = None,
    training: LinePairs | None = None,
    settings: CompareSettings | None = None,
    proxy_epochs: int | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    others: Mapping[str, str] | None = None,
) -> Comparison:
    """Loads networks, fits IBM 1 and the proxy on the text they were trained on, and compares all of them.

    The proxy is kept in the run directory, so that a second comparison need not train it again.

    Args:
        neural: a checkpoint or run directory of a network with attention.
        uniform: the same of one with uniform attention.
        pairs: the text to score; the run's validation text if not given.
        training: the training text, for a checkpoint that no longer lies in its run directory.
        settings: defaults if not given.
        proxy_epochs: the preset's if not given.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: of the proxy.
        others: name -> a file of another system's alpha scores (:mod:`alignkit.interop.other_systems`).

    Raises:
        AlignkitError: a file is not a network, or its training text is missing or not the same.
    """
    settings = settings or CompareSettings()
    network = load_network(neural, device)
    other = load_network(uniform, device) if uniform is not None else None
    run = find_run(neural)
    text, valid = _texts(neural, network, run, training)
    scored = encode_bitext(network.tokenizer, pairs.source, pairs.target) if pairs is not None else valid
    if scored is None:
        raise AlignkitError(f"{neural} lies in no run directory; give SRC and TGT to score")
    proxy = proxy_of(
        network,
        run if training is None else None,
        text,
        scored if valid is None else valid,
        seed=settings.seed,
        epochs=proxy_epochs,
        progress=progress,
        device=device,
    )
    shapes = word_shapes(scored)
    read = {name: read_scores(path, shapes) for name, path in (others or {}).items()}
    return Comparison(compare(network, proxy, text, scored, settings, other, read), network, text, scored)


def _texts(
    path: str, network: NeuralAligner, run: TranslationRun | None, training: LinePairs | None
) -> tuple[Bitext, Bitext | None]:
    """The encoded training text and the run's validation text, if any."""
    valid = run.valid if run is not None else None
    if training is not None:
        text = encode_bitext(network.tokenizer, training.source, training.target)
    elif run is not None:
        text = run.train
    else:
        raise AlignkitError(
            f"{path} lies in no run directory, so its training text is unknown; give it with --train SRC TGT"
        )
    if text.fingerprint() != network.fingerprint:
        raise AlignkitError(f"{path} was not trained on this training text; give the one it was trained on")
    return text, valid


def proxy_of(
    network: NeuralAligner,
    run: TranslationRun | None,
    training: Bitext,
    valid: Bitext,
    *,
    seed: int = 0,
    epochs: int | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> ProxyAligner:
    """The proxy of the text that a network was trained on, kept in the network's run directory.

    Args:
        network: its size says which preset the proxy has.
        run: where to keep the proxy; None to train it in any case.
        training: the text.
        valid: says which epoch is the best. Without the run's validation text, the scored pairs do.
        seed: of the proxy.
        epochs: the preset's if not given.
        progress, device: as in :func:`alignkit.neural.proxy.fit_proxy`.
    """
    preset = PROXY_PRESETS["paper" if network.settings.network.embedding >= 256 else "small"]
    settings = replace(preset, seed=seed, epochs=epochs or preset.epochs)
    cache = run.path / PROXY_CACHE if run is not None else None
    return fit_or_load_proxy(cache, training, valid, settings, progress, device)


def fit_or_load_proxy(
    cache: Path | None,
    training: Bitext,
    valid: Bitext,
    settings: ProxySettings,
    progress: Progress | None = None,
    device: str = "auto",
) -> ProxyAligner:
    """The proxy of a text: read from ``cache`` if it was trained there with these settings and these words, else
    trained and written to it.

    Args:
        cache: a .pt file beside the text it belongs to, or None to train in any case.
        training, valid, settings, progress, device: as in :func:`alignkit.neural.proxy.fit_proxy`.
    """
    if cache is not None and cache.exists():
        with suppress(AlignkitError):  # a damaged cache is trained again
            found = load_checkpoint(cache, device)
            words = training.source.vocabulary, training.target.vocabulary
            if isinstance(found, ProxyAligner) and (found.settings, found.source, found.target) == (
                settings,
                *words,
            ):
                return found
    proxy = fit_proxy(training, valid, settings, progress, device)
    if cache is not None:
        with suppress(AlignkitError):  # a run that cannot be written to can be compared all the same
            proxy.save(cache)
    return proxy
