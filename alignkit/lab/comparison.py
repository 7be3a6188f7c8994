"""Comparison of classical aligners, a network's attention, its proxy and other systems on the same tokens.

The paper's claim (Snell et al., section 3): A(lstm.alpha, ibm1.beta), A(lstm.alpha, proxy.beta) and
A(uniform.beta, proxy.beta) are above chance, since attention learns early which words co-occur, as IBM Model 1
does. Torch is imported only where there is a network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

from alignkit.aligner import Aligner
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError, of_file
from alignkit.lab.interop.heads import HeadChoice, split_choice
from alignkit.lab.interop.other_systems import (
    ExternalScores,
    is_between_tokens,
    project_scores,
    read_scores,
    scores_with_words,
    scores_without_specials,
    word_bitext,
    word_shapes,
)
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.intervals import percentile_interval
from alignkit.metrics.protocol import MetricOptions, MetricSettings
from alignkit.metrics.registry import MAIN, ScoreMetric, compare, find_metric
from alignkit.scores import Scores
from alignkit.support.settings import with_options
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import encode_bitext
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from alignkit.neural.aligners import NeuralAligner


#: The names of :data:`ALSO`, for type checkers.
Also = Literal["ibm1.alpha", "delta", "ov"]
#: Scores that are compared if asked for -> what they are; ``delta`` and ``ov`` are the network's.
ALSO = {
    "ibm1.alpha": "IBM Model 1's posterior",
    "delta": "the network's saliency",
    "ov": "the lexicon of a transformer's attention heads",
}
ALIGN, DIAGONAL = "align.alpha", "diagonal"  #: what is held against other scores' agreement with a head
BEST_HEADS = 3  #: of an attention file, if none is chosen


@dataclass(frozen=True)
class CompareSettings(MetricSettings):
    """Settings of the comparison.

    Attributes:
        metric: its name, one of ``alignkit.metrics.registry.SCORE_METRICS``.
        iterations: EM iterations of IBM 1; 1 without NULL is the paper's count-based Trans.
        also: further scores, of ``ALSO``.
        device: as :func:`alignkit.neural.devices.pick_device`.
    """

    metric: str = MAIN.name
    iterations: int = IBM1Settings.iterations
    also: tuple[str, ...] = ()
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        find_metric(self.metric)


class CompareOptions(MetricOptions, total=False):
    """The fields of :class:`CompareSettings`, as options of a function."""

    metric: ScoreMetric
    iterations: int
    also: tuple[Also, ...]
    device: str


@dataclass(frozen=True)
class Comparison:
    """Scores of several aligners on one text, measured against each other.

    Attributes:
        table: of :func:`alignkit.metrics.registry.compare`.
        network: the one with attention; None if all aligners are classical.
        training: the text that everything was fitted on.
        pairs: the text that was scored.
        scores: name -> what was compared, on the tokens of ``pairs``, or on these without BOS and EOS; nothing
            of pairs with a blank side.
        differences: of :func:`head_differences`, where there are heads of an attention file.
    """

    table: pd.DataFrame
    network: NeuralAligner | None
    training: Bitext
    pairs: Bitext
    scores: Mapping[str, Scores]
    differences: pd.DataFrame | None = None


def compare_networks(
    neural: PathLike,
    uniform: PathLike | None = None,
    *,
    pairs: LinePairs | None = None,
    training: LinePairs | None = None,
    others: Mapping[str, PathLike] | None = None,
    heads: PathLike | None = None,
    beta: PathLike | None = None,
    settings: CompareSettings | None = None,
    progress: Progress = no_progress,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Load networks, fit IBM 1 and the proxy on the text they were trained on, and compare all of them.

    The proxy is kept in the run directory, so that a second comparison need not train it again.

    Args:
        neural: a checkpoint or run directory of a network with attention.
        uniform: the same of one with uniform attention.
        pairs: the text to score; the run's validation text if not given.
        training: the training text, for a checkpoint that no longer lies in its run directory.
        others: name -> a file of another system's alpha scores (:mod:`alignkit.lab.interop.other_systems`). If
            any is between words, and not between the network's tokens, BOS and EOS are left out of the comparison.
        heads, beta: an attention file, whose best heads or chosen head are compared too, and one with another
            quantity of the same heads, as of :func:`head_scores`.
        settings: defaults if not given.
        progress: of the proxy's training, then called before each of the scores is computed.
        **options: fields of :class:`CompareSettings` that replace those of ``settings``.

    Raises:
        AlignkitError: a file is not a network, its training text is missing or not the same, or the second network
            has other tokens or was trained with attention.
    """
    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.neural.proxy import proxy_of
    from alignkit.neural.settings import ProxySettings
    from alignkit.neural.training.run_directory import find_run, load_network

    settings = with_options(CompareSettings, settings, options)
    network = load_network(neural, settings.device)
    if "ov" in settings.also:
        network.check_kind("ov")
    other = load_network(uniform, settings.device) if uniform is not None else None
    if other is not None:
        if other.name != "uniform":
            raise AlignkitError("the second network was not trained with uniform attention")
        if other.tokenizer.vocabulary != network.tokenizer.vocabulary:
            raise AlignkitError("the two networks do not share their tokens; train both on the same text")
    run = find_run(neural)
    valid = None if run is None else run.valid
    if training is not None:
        text = encode_bitext(network.tokenizer, training.source, training.target)
    elif run is not None:
        text = run.train
    else:
        remedy = "so its training text is unknown; give it with --train SRC TGT"
        raise AlignkitError(f"{neural} lies in no run directory, {remedy}")
    if text.fingerprint() != network.fingerprint:
        raise AlignkitError(f"{neural} was not trained on this training text; give the one it was trained on")
    scored = encode_bitext(network.tokenizer, pairs.source, pairs.target) if pairs is not None else valid
    if scored is None:
        raise AlignkitError(f"{neural} lies in no run directory; give SRC and TGT to score")
    kinds = ("alpha", "beta", *(kind for kind in ("delta", "ov") if kind in settings.also))
    names = ["ibm1.beta", *(["ibm1.alpha"] if "ibm1.alpha" in settings.also else []), "proxy.beta"]
    names += [*(f"{network.name}.{kind}" for kind in kinds), *(["uniform.beta"] if other is not None else [])]
    read, on_words = read_others(others or {}, names, scored)
    of_heads: dict[str, Scores] = {}
    if heads is not None:
        more: dict[str, Any] = {"beta": beta, "taken": read, "settings": settings, "progress": progress}
        found = head_scores(heads, word_bitext(text), word_bitext(scored), **more)
        for name, each in found.items():
            of_heads[name] = project_scores(ExternalScores(name, each), scored, divided=False)
        on_words = True
    place = run.path if run is not None and training is None else None
    held = scored if valid is None else valid
    plan = ProxySettings(seed=settings.seed)
    proxy = proxy_of(place, text, held, plan, progress, settings.device)
    ibm1 = fit_ibm1(text, iterations=settings.iterations, null=False, threads=settings.threads)
    aligners: dict[str, Aligner] = {"ibm1": ibm1, "proxy": proxy, "uniform": other or network}
    aligners[network.name] = network
    scores = {}
    for done, name in enumerate(names):
        progress(done, len(names), f"scoring by {name}")
        aligner, _, kind = name.partition(".")
        scores[name] = aligners[aligner].score(scored, kind)
    scores |= read | of_heads
    if on_words:
        scores = {name: scores_without_specials(each, scored) for name, each in scores.items()}
    else:
        scores = scores_with_words(scores, scored)
    if of_heads:  # of the tokens: divided among those of a word, the nearest would not be the largest
        scores[DIAGONAL] = diagonal_scores(scores[DIAGONAL].shapes)
    table = compare(scores, settings.metric, settings)
    differences = head_differences(scores, [*of_heads], settings) if of_heads else None
    return Comparison(table, network, text, scored, scores, differences)


def compare_classical(
    pairs: LinePairs,
    others: Mapping[str, PathLike] | None = None,
    *,
    training: LinePairs | None = None,
    heads: PathLike | None = None,
    beta: PathLike | None = None,
    settings: CompareSettings | None = None,
    progress: Progress | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare IBM Model 1, the aligner of :func:`alignkit.align` and scores of other systems, between words.

    Args:
        pairs: the text to score.
        others: name -> a file of another system's alpha scores (:mod:`alignkit.lab.interop.other_systems`).
        heads, beta: an attention file, whose best heads or chosen head are compared too, and one with another
            quantity of the same heads, as of :func:`head_scores`.
        training: the text that the aligners are fitted on; ``pairs`` if not given. Words that it lacks have zeros.
        settings: defaults if not given; what is said there of networks does not count.
        progress: of the fit.
        **options: fields of :class:`CompareSettings` that replace those of ``settings``.

    Returns:
        a comparison whose ``network`` is None, of ``ibm1.beta``, ``align.alpha`` and ``NAME.alpha``.

    Raises:
        AlignkitError: scores cannot be read or are not of these pairs, or a name is taken.
    """
    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.pipeline.align import align
    from alignkit.text.pairs import read_text

    settings = with_options(CompareSettings, settings, options)
    bitext = read_text(pairs.source, pairs.target)
    text = bitext if training is None else read_text(training.source, training.target)
    kinds = ["beta", *(["alpha"] if "ibm1.alpha" in settings.also else [])]
    read, _ = read_others(others or {}, [*(f"ibm1.{kind}" for kind in kinds), ALIGN], bitext, specials=False)
    if heads is not None:
        more: dict[str, Any] = {"beta": beta, "taken": read, "settings": settings, "progress": progress}
        aligned = head_scores(heads, text, bitext, **more)
    else:
        aligner = align(text, threads=settings.threads, progress=progress).aligner
        aligned = {ALIGN: aligner.score(bitext, "alpha")}
    ibm1 = fit_ibm1(text, iterations=settings.iterations, null=False, threads=settings.threads)
    scores = {f"ibm1.{kind}": ibm1.score(bitext, kind) for kind in kinds} | aligned | read
    table = compare(scores, settings.metric, settings)
    differences = head_differences(scores, [*aligned], settings) if heads is not None else None
    return Comparison(table, None, text, bitext, scores, differences)


def head_scores(
    path: PathLike,
    text: Bitext,
    pairs: Bitext,
    *,
    beta: PathLike | None = None,
    taken: Collection[str] = (),
    settings: MetricSettings | None = None,
    progress: Progress | None = None,
) -> dict[str, Scores]:
    """Scores of attention heads between words, and what their agreement with others is held against.

    Args:
        path: a file with layers and heads; ``FILE:LAYER.HEAD`` chooses one, and otherwise the best ones are taken,
            by their hits on the links of the aligner.
        text: of words, which the aligner of :func:`alignkit.align` is fitted on.
        pairs: the words that are scored.
        beta: a file with another quantity of the same heads.
        taken: names of scores that they cannot have.
        settings: of the ranking.
        progress: of the fit.

    Returns:
        ``align.alpha``, ``diagonal`` (the nearer to it, the larger), and of each head ``LAYER.HEAD.alpha`` and, if
        there is such a file, ``LAYER.HEAD.beta``.

    Raises:
        AlignkitError: a file cannot be read or is not of these pairs, there is no such head, or a name is taken.
    """
    from alignkit.lab.heads.ranking import heads_of_text, rank_heads
    from alignkit.pipeline.align import align

    settings = settings or MetricSettings()
    place, choice = split_choice(path)
    heads = heads_of_text(place, pairs)
    lexicons = None if beta is None else heads_of_text(beta, pairs)
    if choice is not None:
        with of_file(place):
            heads.scores(choice)  # if there is no such head, this is said before the fit
    aligner = align(text, threads=settings.threads, progress=progress).aligner
    links = aligner.links(pairs)
    gold = GoldLinks(links, links)
    if choice is not None:
        choices = [choice]
    else:
        ranked = rank_heads(heads, pairs, gold, settings=settings).table.head(BEST_HEADS)
        choices = [HeadChoice(int(row.layer), int(row.head), bool(row.shift)) for row in ranked.itertuples()]
    scores = {ALIGN: aligner.score(pairs, "alpha"), DIAGONAL: diagonal_scores(pairs.shapes)}
    scores |= {f"{each}.alpha": heads.word_scores(each) for each in choices}
    if lexicons is not None:
        plain = [replace(each, shifted=False) for each in choices]
        scores |= {f"{each}.beta": lexicons.word_scores(each) for each in plain}
    if set(scores) & set(taken):
        raise AlignkitError(f"the names of other systems' scores must be new; already in use: {', '.join(scores)}")
    return scores


def diagonal_scores(shapes: np.ndarray) -> Scores:
    """Scores of int32 shapes (M, 2), T and L of each pair: the nearer to the diagonal, the larger."""
    from alignkit.lab.heads.ranking import BestLinkCounter

    scores, none = Scores.zeros(shapes), Links.from_strings([""] * len(shapes))
    scores.values[:] = BestLinkCounter(GoldLinks(none, none), shapes).positions()["diagonal"]
    return scores


def head_differences(
    scores: Mapping[str, Scores], of_heads: Sequence[str], settings: CompareSettings
) -> pd.DataFrame:
    """How much more each set of scores agrees with a head than the diagonal does, or the joint aligner.

    What counts is the metric above its chance level, since scores with many ties, as those of words that never
    co-occur, agree by chance more often.

    Args:
        scores: all that are compared.
        of_heads: the names that :func:`head_scores` gave.
        settings: of the comparison.

    Returns:
        one row per head u, other scores v, and w of the diagonal and the aligner: ``difference``, the metric of
        (u, v) above chance minus that of (u, w), with ``low`` and ``high``, the 95 % bootstrap interval over
        sentence pairs.
    """
    import pandas as pd

    metric = find_metric(settings.metric)

    def above_chance(values: Mapping[str, Any]) -> Any:
        return values[metric.name] - values["chance"]

    rows = []
    for u in of_heads:
        if u in (ALIGN, DIAGONAL) or u.endswith(".beta"):
            continue
        own = u.removesuffix(".alpha").removesuffix("+1") + ".beta"
        compared = [v for v in scores if v in (ALIGN, DIAGONAL, own) or v not in of_heads]
        counts = {v: metric.count(scores[u], scores[v], settings) for v in compared}
        values = {v: above_chance(metric.total(each)) for v, each in counts.items()}
        draws = {v: above_chance(metric.draws(each, settings)) for v, each in counts.items()}
        for w in (DIAGONAL, ALIGN):
            for v in compared:
                if v not in (w, DIAGONAL):
                    low, high = percentile_interval(draws[v] - draws[w])
                    row = {"u": u, "v": v, "w": w, "difference": values[v] - values[w], "low": low, "high": high}
                    rows.append(row)
    return pd.DataFrame(rows)


def read_others(
    files: Mapping[str, PathLike], taken: Sequence[str], pairs: Bitext, *, specials: bool = True
) -> tuple[dict[str, Scores], bool]:
    """Read the scores of other systems.

    Args:
        files: name -> a file of alpha scores.
        taken: names of scores that they cannot have.
        pairs: of subwords with BOS and EOS; or of words.
        specials: whether the pairs are of subwords.

    Returns:
        ``NAME.alpha`` -> scores on the tokens of the pairs, undivided; and whether the pairs have BOS and EOS and
        some of the scores do not.

    Raises:
        AlignkitError: a name is taken, or scores are not of these pairs.
    """
    named = {name if name.endswith(".alpha") else f"{name}.alpha": path for name, path in files.items()}
    if len(named) < len(files) or set(named) & set(taken):
        raise AlignkitError(f"the names of other systems' scores must be new; already in use: {', '.join(taken)}")
    if not named:
        return {}, False
    shapes = word_shapes(pairs, specials, specials)
    read = {name: read_scores(path, shapes) for name, path in named.items()}
    on_words = specials and not all(is_between_tokens(found, pairs) for found in read.values())
    how = {"specials": specials, "divided": False}
    return {name: project_scores(s, pairs, **how) for name, s in read.items()}, on_words
