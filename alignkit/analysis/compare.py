"""Classical against neural: IBM Model 1, the proxy and the network on the same tokens (Snell et al., section 3).

The paper's claim: A(lstm.alpha, ibm1.beta), A(lstm.alpha, proxy.beta) and A(uniform.beta, proxy.beta) are above
chance, since attention learns early which words co-occur, as IBM Model 1 does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from alignkit.aligner import Aligner, check_kind
from alignkit.analysis.classical import Comparison, with_others
from alignkit.analysis.networks import load_network
from alignkit.analysis.proxy import proxy_of
from alignkit.analysis.settings import CompareSettings
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.interop.external_scores import ExternalScores
from alignkit.interop.other_systems import read_scores
from alignkit.interop.projection import word_shapes
from alignkit.metrics.registry import compare, find_metric
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.proxy import ProxyAligner
from alignkit.neural.training.translation_run import TranslationRun, find_run
from alignkit.settings import with_options
from alignkit.text.bitext import Bitext
from alignkit.text.line_pairs import LinePairs
from alignkit.text.tokenization import encode_bitext
from alignkit.types import PathLike, Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd


def compare_aligners(
    network: NeuralAligner,
    proxy: ProxyAligner,
    training: Bitext,
    pairs: Bitext,
    settings: CompareSettings | None = None,
    uniform: NeuralAligner | None = None,
    others: Mapping[str, ExternalScores] | None = None,
    progress: Progress = no_progress,
) -> pd.DataFrame:
    """Score ``pairs`` with every aligner and measure each score against each.

    Args:
        network: trained with attention.
        proxy: trained on ``training``.
        training: the text that IBM 1 is fitted on: the network's own, with the network's tokens.
        pairs: the M pairs to score, encoded alike.
        settings: defaults if not given.
        uniform: a network trained with uniform attention on the same tokens.
        others: name -> alpha scores of other systems. If any is between words, and not between the network's
            tokens, BOS and EOS are left out of the comparison.
        progress: called before each of the scores is computed.

    Returns:
        the table of :func:`alignkit.metrics.registry.compare`.

    Raises:
        AlignkitError: ``uniform`` has other tokens, or was trained with attention; there is no such metric.
    """
    settings = settings or CompareSettings()
    metric = find_metric(settings.metric)
    if uniform is not None:
        if uniform.name != "uniform":
            raise AlignkitError("the second network was not trained with uniform attention")
        if uniform.tokenizer.vocabulary != network.tokenizer.vocabulary:
            raise AlignkitError("the two networks do not share their tokens; train both on the same text")
    ibm1 = fit_ibm1(training, iterations=settings.iterations, null=settings.null, threads=settings.threads)
    if settings.ov:
        check_kind(network, "ov")
    wanted = _wanted(ibm1, proxy, network, uniform, settings)
    scores = {}
    for done, (name, (aligner, kind)) in enumerate(wanted.items()):
        progress(done, len(wanted), f"scoring by {name}")
        scores[name] = aligner.score(pairs, kind)
    if others:
        scores = with_others(scores, pairs, others)
    return compare(scores, metric, settings)


def _wanted(
    ibm1: Aligner, proxy: Aligner, network: Aligner, uniform: Aligner | None, settings: CompareSettings
) -> dict[str, tuple[Aligner, str]]:
    """Name of a row of the table -> the aligner and the kind of its scores."""
    found = {"ibm1.beta": (ibm1, "beta")}
    if settings.ibm_alpha:
        found["ibm1.alpha"] = (ibm1, "alpha")
    found["proxy.beta"] = (proxy, "beta")
    for kind in ("alpha", "beta", *(kind for kind in ("delta", "ov") if getattr(settings, kind))):
        found[f"{network.name}.{kind}"] = (network, kind)
    if uniform is not None:
        found["uniform.beta"] = (uniform, "beta")
    return found


def compare_networks(
    neural: PathLike,
    uniform: PathLike | None = None,
    *,
    pairs: LinePairs | None = None,
    training: LinePairs | None = None,
    others: Mapping[str, PathLike] | None = None,
    settings: CompareSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Load networks, fit IBM 1 and the proxy on the text they were trained on, and compare all of them.

    The proxy is kept in the run directory, so that a second comparison need not train it again.

    Args:
        neural: a checkpoint or run directory of a network with attention.
        uniform: the same of one with uniform attention.
        pairs: the text to score; the run's validation text if not given.
        training: the training text, for a checkpoint that no longer lies in its run directory.
        others: name -> a file of another system's alpha scores (:mod:`alignkit.interop.other_systems`).
        settings: defaults if not given.
        progress: of the proxy's training, then of the scores.
        **options: fields of :class:`CompareSettings` that replace those of ``settings``.

    Raises:
        AlignkitError: a file is not a network, or its training text is missing or not the same.
    """
    settings = with_options(settings or CompareSettings(), options)
    find_metric(settings.metric)
    network = load_network(neural, settings.device)
    other = load_network(uniform, settings.device) if uniform is not None else None
    run = find_run(neural)
    text, valid = _texts(neural, network, run, training)
    scored = encode_bitext(network.tokenizer, pairs.source, pairs.target) if pairs is not None else valid
    if scored is None:
        raise AlignkitError(f"{neural} lies in no run directory; give SRC and TGT to score")
    shapes = word_shapes(scored)
    read = {name: read_scores(path, shapes) for name, path in (others or {}).items()}
    proxy = proxy_of(
        network,
        run if training is None else None,
        text,
        scored if valid is None else valid,
        seed=settings.seed,
        epochs=settings.proxy_epochs,
        progress=progress,
        device=settings.device,
    )
    table = compare_aligners(network, proxy, text, scored, settings, other, read, progress or no_progress)
    return Comparison(table, network, text, scored)


def _texts(
    path: PathLike, network: NeuralAligner, run: TranslationRun | None, training: LinePairs | None
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
