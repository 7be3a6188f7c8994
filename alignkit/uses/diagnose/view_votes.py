"""How far several views of a text agree on its links: the joint model of each view votes on every pair of words.

The views (:mod:`alignkit.classical.hmm.views`) see different units of the same words, so their errors are less
alike than those of the two directions of one model. A link that most of them find is probably right, whoever
proposes it: :mod:`alignkit.uses.diagnose.expected_aer` takes this as evidence where there are no gold links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from alignkit.classical.hmm.joint import BidirectionalHMM, fit_view, progress_of_view, settings_of_view
from alignkit.classical.hmm.link_probabilities import Attachment, PhraseEdges, chances, into_probabilities, raised
from alignkit.classical.hmm.model import posteriors
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import VIEWS, View, ViewedText, trained_views, training_pairs
from alignkit.embeddings.levels import Embeddings
from alignkit.errors import AlignkitError
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import brief_repr
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

#: A view votes for a link of at least these log-odds, or a direction of this probability.
VOTE, LIKELY = np.float32(0), np.float32(0.5)
#: The views that vote: without that of collocations, which the numbers of the estimates were chosen without.
VOTERS = tuple(view for view in VIEWS if not view.joined)
_BLOCK = 10_000  # sentence pairs whose directions are compared at a time


@dataclass(frozen=True, eq=False)
class ViewVotes:
    """What the views of a text say about the links of its first pairs.

    Attributes:
        pairs: int64 (M,), which pairs of the text they are, rising: very long ones are left out.
        bitext: these M pairs.
        probabilities: (T, L) of each, those of the links of all views together.
        support: (T, L) of each, the mean of the probabilities that each view alone gives its links, without the
            links beside them, but for attachment (:mod:`alignkit.classical.hmm.link_probabilities`). Views of
            subwords count for as much in all as the others, whose errors are alike.
        votes: uint8, of each element of the matrices, how many views find it likelier than not.
        views: how many there are.
        agreement_of_directions: F1 of the links of both directions of the model of words, NaN without any.
    """

    pairs: np.ndarray
    bitext: Bitext
    probabilities: Scores
    support: Scores
    votes: np.ndarray
    views: int
    agreement_of_directions: float

    __repr__ = brief_repr

    @property
    def unanimous(self) -> np.ndarray:
        """bool, of each element: whether all views vote for it."""
        return self.votes == self.views

    @property
    def agreement_of_views(self) -> float:
        """F1 of the links of two views, pooled over all pairs of views; NaN with fewer than two, or no links.

        Twice the links that the views of each pair share, summed over pairs, over all links of each pair, likewise
        summed: views with more links weigh more than in a mean of the pairs' own F1.
        """
        votes = self.votes.astype(np.int64)
        total = int(votes.sum())
        if self.views < 2 or total == 0:
            return float("nan")
        return float((votes * (votes - 1)).sum() / (total * (self.views - 1)))


def vote(
    bitext: Bitext,
    count: int | None = None,
    *,
    views: tuple[View, ...] = VOTERS,
    embeddings: Embeddings | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ViewVotes:
    """Fit a joint model to each view of a text, and count its votes for the links of the first pairs.

    Args:
        bitext: the text that is learned from.
        count: how many of its pairs are wanted, if there are so many; all of them by default.
        views: those with subwords are left out where the text is too small for them.
        embeddings: of words, which all views take as evidence.
        threads: all there are by default; no result depends on it.
        progress: called with (done, total, message) after each iteration.

    Raises:
        AlignkitError: all of these pairs have more than ``LARGEST_PAIR`` elements
            (:mod:`alignkit.classical.hmm.views`).
    """
    count = len(bitext) if count is None else min(count, len(bitext))
    text, chosen = training_pairs(bitext)
    pairs = np.arange(count) if chosen is None else np.flatnonzero(chosen[:count])
    if count and not len(pairs):
        raise AlignkitError("the sentence pairs are too long; split their lines into sentences")
    head = text.block(0, len(pairs))
    total, support = Scores.zeros(head.shapes), Scores.zeros(head.shapes)
    votes = np.zeros(len(total.values), np.uint8)
    views, agreement = trained_views(views, text), float("nan")
    # The same settings whatever the size of the text: the estimates' numbers were chosen with them.
    settings = replace(JOINT_SETTINGS, least_own=0.0)
    plans = [settings_of_view(settings, view) for view in views]
    levels = None if embeddings is None else embeddings.levels(text, thread_count(threads), progress)
    kinds = [bool(view.subwords) for view in views]
    attachment = cohesion = None
    for n, view in enumerate(views):
        report = None if progress is None else progress_of_view(progress, n, plans, f"view {n + 1}")
        viewed = ViewedText(view, text)
        alike = None if levels is None else viewed.levels(levels, thread_count(threads))
        model, log_odds = fit_view(viewed, plans[n], thread_count(threads), report, levels=alike)
        own = _of_words(log_odds, view, head, threads)
        total.values[:] += own.values / np.float32(len(views))
        support.values[:] += chances(own.values) / np.float32(len(set(kinds)) * kinds.count(kinds[n]))
        votes += own.values >= VOTE
        if n == 0:
            words = ViewedText(view, head).bitext
            agreement = agreement_of_directions(model, words, threads)
        if n == 0 and view.has_words:
            phrase_edges = PhraseEdges.of_text(viewed.bitext)
            cohesion = phrase_edges.cohesion(words)
            # This overwrites what is not needed any more.
            found = into_probabilities(log_odds, threads, phrase_edges.cohesion(viewed.bitext))
            attachment = Attachment.of_links(viewed.bitext, found, thread_count(threads))
    probabilities = into_probabilities(total, threads, cohesion)
    if attachment is not None:
        attached = attachment.apply(words, probabilities, thread_count(threads))
        support.values[attached] = raised(support.values[attached])
    return ViewVotes(pairs, head, probabilities, support, votes, len(views), agreement)


def _of_words(log_odds: Scores, view: View, head: Bitext, threads: int | None) -> Scores:
    """The log-odds of the links of words of the first pairs, from those of units of the whole text in a view."""
    wanted = ViewedText(view, head)
    shapes = wanted.bitext.shapes
    offsets = flat_offsets(shapes)
    first = Scores(log_odds.values[: offsets[-1]], offsets, shapes)
    return wanted.of_words(first, thread_count(threads))


def agreement_of_directions(model: BidirectionalHMM, bitext: Bitext, threads: int | None = None) -> float:
    """F1 of the links that each direction of a joint model finds likelier than not; NaN without any.

    Args:
        model: of both directions.
        bitext: M pairs of its units.
        threads: all there are by default.
    """
    both, each = 0, 0
    for low in range(0, len(bitext), _BLOCK):
        block = bitext.block(low, min(low + _BLOCK, len(bitext)))
        forward, reverse = (
            posteriors(block, model, shares, threads)[0].values >= LIKELY for shares in (FORWARD, REVERSE)
        )
        both += int((forward & reverse).sum())
        each += int(forward.sum()) + int(reverse.sum())
    return 2 * both / each if each else float("nan")
