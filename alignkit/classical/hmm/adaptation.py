"""Adaptation of a fitted joint aligner to another text: iterations of EM that start from its counts.

The aligner's expected counts are added to those of the text wherever parameters are estimated: of word pairs, of
classes of words, of NULL, of fertilities, of jumps. So a text of any size gains from what it repeats itself, as a
text that is fitted does, and the aligner stays what it was. The result depends on the text as a whole, but not on
texts that the same aligner was adapted to before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.background import BackgroundModel
from alignkit.classical.hmm.hmm import HMMEstimation, estimate
from alignkit.classical.hmm.joint import (
    BidirectionalHMM,
    FittedText,
    JointHMM,
    model_and_log_odds,
    settings_of_view,
)
from alignkit.classical.hmm.link_probabilities import into_probabilities
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.views import BLOCK_ELEMENTS, Linked, ViewedText, training_pairs
from alignkit.kernels.expected_links import set_links
from alignkit.kernels.hmm_e_step import BOTH
from alignkit.scores import Scores
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import blocks_of_size, thread_count
from alignkit.text.bitext import Bitext

#: Of an adaptation: iterations with transitions only, until the links settle as in the fit of a large text.
#: Pseudo-counts are these, also for a model that was fitted without: with none, nothing new could be learned. The
#: model's own are the probability of NULL, whether words are compared by their spelling, and whether there is
#: fertility.
ADAPTATION_SETTINGS = replace(JOINT_SETTINGS, lexical_iterations=0, least_own=0.0)


class Adapter:
    """A fitted joint aligner that is adapted to one text after another, each of its models as it sees that text.

    Args:
        model: as :func:`alignkit.classical.hmm.joint.fit_joint` returns it, or loaded.
        threads: all there are by default; no result depends on it.
    """

    def __init__(self, model: JointHMM, threads: int | None = None) -> None:
        self.model, self.threads = model, threads
        self.settings, self.backgrounds = list[HMMSettings](), list[BackgroundModel]()
        for view, each in zip(model.views, model.models, strict=True):
            settings = settings_of_view(ADAPTATION_SETTINGS, view)
            own = replace(
                settings,
                null_probability=each.forward.null_probability,
                spelling=settings.spelling if each.is_spelled else 0.0,
                fertility=settings.fertility if each.has_fertility else 0.0,
            )
            self.settings.append(own)
            self.backgrounds.append(BackgroundModel(each, each.counts, own))

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
        threads, models, total = thread_count(self.threads), list[BidirectionalHMM](), None
        for view, model, settings, background in zip(
            self.model.views, self.model.models, self.settings, self.backgrounds, strict=True
        ):
            viewed = ViewedText(view, text)
            for side in (text.source, text.target):
                side.vocabulary.forget_strings()  # several times as large as the vocabulary
            part, seen = training_pairs(viewed.bitext)
            estimation = HMMEstimation(part, settings, BOTH, threads, background=background)
            if counted is not None and (seen is None or seen.any()):
                count_once(estimation, counted if seen is None else counted[seen], model)
            estimate(estimation, last_pool=model.pool)
            # What is adapted knows only the words of the pairs that it is adapted to.
            adapted, log_odds = model_and_log_odds(estimation, viewed, seen, other=model)
            models.append(adapted)
            log_odds = viewed.of_words(log_odds, threads)
            if total is None:
                total = log_odds
            else:
                total.values[:] += log_odds.values
            del log_odds, estimation  # as large as all that the next one keeps of the links
        if total is None or (chosen is not None and not chosen.any()):
            total = Scores.from_matrices([])
        total.values[:] /= np.float32(len(models))

        words = ViewedText(self.model.views[0], text).bitext
        ids = self.model.words.ids(words)
        attachment = self.model.attachment and self.model.attachment.of_words(*ids)
        phrase_edges = self.model.phrase_edges and self.model.phrase_edges.of_words(*ids)
        probabilities = into_probabilities(total, threads, phrase_edges.cohesion(words) if phrase_edges else None)
        fitted = FittedText(bitext, probabilities, chosen, of_others=self.model)
        if attachment is not None:
            fitted = replace(fitted, attached=attachment.apply(words, probabilities, threads))
        return replace(
            self.model, models=tuple(models), attachment=attachment, phrase_edges=phrase_edges, fitted=fitted
        )

    def links_and_probabilities(self, bitext: Bitext, counted: np.ndarray | None = None) -> Linked:
        """Links of a bitext by the aligner adapted to it, and their probabilities, float64 (K,)."""
        return self.adapt(bitext.with_own_words(), counted).fitted_links_and_probabilities


def count_once(estimation: HMMEstimation, counted: np.ndarray, model: BidirectionalHMM) -> None:
    """Leave what pairs bool (M,) contributed to the model out of its counts, once the text has its own.

    The model does not keep it: it is taken to be what the model expects of these pairs now.
    """
    elements, offsets = estimation.links.elements, estimation.links.offsets
    for low, high in blocks_of_size(offsets_of(np.diff(offsets) * counted), BLOCK_ELEMENTS):
        chosen = np.flatnonzero(counted[low:high])
        own = model.expected_links(
            estimation.bitext.block(low, high).take(chosen).with_own_words(), estimation.threads
        )
        part = elements[offsets[low] : offsets[high]]
        are_own = np.repeat(counted[low:high], np.diff(offsets[low : high + 1]))
        linked = part[are_own]
        set_links(linked, own.values)
        part[are_own] = linked
        del own, part, are_own, linked  # before more is needed
    estimation.counts_of_others = estimation.pairs.background_without(estimation.links)
