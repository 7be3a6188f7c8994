"""Adaptation of a fitted joint aligner to another text: iterations of EM that start from its counts.

The aligner's expected counts are added to those of the text wherever parameters are estimated: of word pairs, of
classes of words, of NULL, of fertilities, of jumps. So a text of any size gains from what it repeats itself, as a
text that is fitted does, and the aligner stays what it was. The result depends on the text as a whole, but not on
texts that the same aligner was adapted to before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.back_off import BackgroundModel
from alignkit.classical.hmm.estimation import HMMEstimation, PairEvidence, estimate
from alignkit.classical.hmm.expectation import uniform_direction
from alignkit.classical.hmm.inference import BidirectionalHMM, into_probabilities
from alignkit.classical.hmm.joint import FittedText, JointHMM, fitted_views, model_and_log_odds, settings_of_view
from alignkit.classical.hmm.parameters import taken
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.views import BLOCK_ELEMENTS, Linked, ViewedText, training_pairs
from alignkit.kernels.expected_links import clear_links, set_links
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import BOTH, DirectionArrays
from alignkit.scores import Scores
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import blocks_of_size, thread_count
from alignkit.text.bitext import Bitext

#: Of an adaptation: iterations with transitions only, until the links settle as in the fit of a large text.
#: Pseudo-counts are these, also for a model that was fitted without: with none, nothing new could be learned. The
#: model's own are the probability of NULL, whether words are compared by their spelling, and whether there is
#: fertility.
ADAPTATION_SETTINGS = replace(JOINT_SETTINGS, lexical_iterations=0)


class Adapter:
    """A fitted joint aligner that is adapted to one text after another, each of its models as it sees that text.

    Args:
        model: as :func:`alignkit.classical.hmm.joint.fit_joint` returns it, or loaded.
        threads: all there are by default; no result depends on it.
    """

    def __init__(self, model: JointHMM, threads: int | None = None) -> None:
        self.model, self.threads = model, threads
        self.settings = [
            _settings_of_model(settings_of_view(ADAPTATION_SETTINGS, view), each)
            for view, each in zip(model.views, model.models, strict=True)
        ]
        self.backgrounds = [
            BackgroundModel(each, each.counts, own) for each, own in zip(model.models, self.settings, strict=True)
        ]

    def adapt(self, bitext: Bitext, counted: np.ndarray | None = None) -> JointHMM:
        """The aligner adapted to a bitext, with the links of that as its ``fitted_links``.

        Args:
            bitext: M pairs.
            counted: bool (M,), the pairs that the model was fitted on, by default none: the first links of a pair
                are those that the model finds, but then it is counted once, and not also as a part of the model.
        """
        text, chosen = training_pairs(bitext)
        if counted is not None and chosen is not None:
            counted = counted[chosen] if chosen.any() else None
        threads = thread_count(self.threads)

        def fit(n: int, viewed: ViewedText) -> tuple[BidirectionalHMM, Scores]:
            model, (part, seen) = self.model.models[n], training_pairs(viewed.bitext)
            estimation = AdaptedEstimation(part, self.settings[n], self.backgrounds[n], threads)
            if counted is not None and (seen is None or seen.any()):
                estimation.count_once(counted if seen is None else counted[seen], model)
            estimate(estimation, last_shares=model.shares)
            # What is adapted knows only the words of the pairs that it is adapted to.
            adapted, log_odds = model_and_log_odds(estimation, viewed, seen, other=model)
            return adapted, viewed.of_words(log_odds, threads)

        models, log_odds = fitted_views(self.model.views, text, chosen, fit)
        words = ViewedText(self.model.views[0], text).bitext
        ids = self.model.words.ids(words)
        attachment = self.model.attachment and self.model.attachment.taken(*ids)
        leanings = self.model.leanings and self.model.leanings.taken(*ids)
        probabilities = into_probabilities(log_odds, threads, leanings.bonds(words) if leanings else None)
        fitted = FittedText(bitext, probabilities, chosen, of_others=self.model)
        if attachment is not None:
            fitted = replace(fitted, attached=attachment.apply(words, probabilities, threads))
        return replace(self.model, models=models, attachment=attachment, leanings=leanings, fitted=fitted)

    def links_and_probabilities(self, bitext: Bitext, counted: np.ndarray | None = None) -> Linked:
        """Links of a bitext by the aligner adapted to it, and their probabilities, float64 (K,)."""
        return self.adapt(bitext.with_own_words(), counted).fitted_links_and_probabilities


def _settings_of_model(settings: HMMSettings, model: BidirectionalHMM) -> HMMSettings:
    return replace(
        settings,
        null_probability=model.forward.null_probability,
        spelling=settings.spelling if model.is_spelled else 0.0,
        fertility=settings.fertility if model.has_fertility else 0.0,
    )


class AdaptedEstimation(HMMEstimation):
    """A joint aligner while it is adapted.

    Args:
        bitext: M pairs, in lower case if the model is.
        settings: of the adaptation.
        background: the model.
        threads: how many to use.
    """

    def __init__(self, bitext: Bitext, settings: HMMSettings, background: BackgroundModel, threads: int) -> None:
        self.background, self.ids = background, background.model.ids(bitext)
        self._counts_of_others: np.ndarray | None = None
        super().__init__(bitext, settings, BOTH, threads, start=background.model)
        self.leave_one_out = 1.0 if settings.leave_one_out else 0.0

    def _pair_evidence(self, prior: object) -> PairEvidence:
        return PairEvidence(self.bitext, self.settings, self.threads, background=(self.background, self.ids))

    def count_once(self, counted: np.ndarray, model: BidirectionalHMM) -> None:
        """Leave what pairs bool (M,) contributed to the model out of its counts, once the text has its own.

        The model does not keep it: it is taken to be what the model expects of these pairs now.
        """
        elements, offsets = self.links.elements, self.links.offsets
        work = np.diff(offsets) * counted
        for low, high in blocks_of_size(offsets_of(work), BLOCK_ELEMENTS):
            chosen = np.flatnonzero(counted[low:high])
            own = model.expected_links(self.bitext.block(low, high).take(chosen).with_own_words(), self.threads)
            part = elements[offsets[low] : offsets[high]]
            are_own = np.repeat(counted[low:high], np.diff(offsets[low : high + 1]))
            linked = part[are_own]
            set_links(linked, own.values)
            part[are_own] = linked
            del own, part, are_own, linked  # before more is needed
        self._counts_of_others = self.pairs.background_without(self.links)

    def initialise(self) -> None:
        """The parameters of the model, and those of its counts for the text's own word pairs."""
        clear_links(self.links.elements)
        totals = self.pairs.update(self.links)
        forward, reverse = (self._initial(side, totals[side]) for side in (0, 1))
        self.directions = forward, reverse
        if self._counts_of_others is not None:  # the text has links of its own from now on
            self.pairs.background_counts = self._counts_of_others

    def _initial(self, side: int, totals: np.ndarray) -> DirectionArrays:
        states, emitted = self.types[side], self.types[1 - side]
        tokens = len(self.sides[1 - side].tokens)
        direction = uniform_direction(states, emitted, tokens, self.settings.null_probability)
        parameters = self.background.model.directions[side]
        null = self._background_null(side) + self.settings.null_prior
        return direction._replace(
            totals=totals,
            null=null.astype(np.float32),
            null_total=float(null.sum()) + self._null_elsewhere(side),
            fertility=taken(parameters.fertility, self.ids[side], unknown=1),
            transition=parameters.transition,
            initial=parameters.initial,
            final=parameters.final,
        )

    def _background_null(self, side: int) -> np.ndarray:
        """float64 (V,): the model's counts of NULL for the words that a direction emits."""
        return taken(self.background.null[side], self.ids[1 - side])

    def _null_elsewhere(self, side: int) -> float:
        """The sum of the model's counts of NULL for words that the text does not have."""
        return max(float(self.background.null[side].sum() - self._background_null(side).sum()), 0.0)

    def _null_counts(self, side: int) -> tuple[np.ndarray, float]:
        null, total = super()._null_counts(side)
        given = self._background_null(side)
        return null + given, total + float(given.sum()) + self._null_elsewhere(side)

    def _transition_counts(self, side: int) -> TransitionCounts:
        counts, parameters = super()._transition_counts(side), self.background.model.directions[side]
        jumps, sentences = float(self.background.totals[side].sum()), counts.initial_shares.max(initial=0.0)
        first = jumps * sentences / max(counts.jump_shares.max(initial=0.0), 1e-30)
        return TransitionCounts(
            jumps=counts.jumps + jumps * parameters.transition,
            jump_shares=counts.jump_shares + jumps,
            initial=counts.initial + first * parameters.initial,
            initial_shares=counts.initial_shares + first,
            final=counts.final + first * parameters.final,
            final_shares=counts.final_shares + first,
        )

    def _count_fertilities(self) -> tuple[np.ndarray, ...]:
        counts = super()._count_fertilities()
        return tuple(
            own + taken(given, ids)
            for own, given, ids in zip(counts, self.background.fertilities, self.ids, strict=True)
        )
