"""Adaptation of a fitted joint aligner to another text: a few iterations of EM that start from its counts.

The aligner's expected counts are added to those of the text wherever parameters are estimated: of word pairs, of
classes of words, of NULL, of fertilities, of jumps. So a text of any size gains from what it repeats itself, as a
text that is fitted does, and the aligner stays what it was. The result depends on the text as a whole, but not on
texts that the same aligner was adapted to before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.estimation import HMMEstimation, estimate
from alignkit.classical.hmm.expectation import uniform_direction
from alignkit.classical.hmm.joint import JointHMM, fitted_joint, joint_and_log_odds
from alignkit.classical.hmm.known_model import KnownModel, KnownPairs, TextClassPairs, taken
from alignkit.classical.hmm.pair_evidence import PairEvidence, room_for_sums
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.windows import BLOCK_ELEMENTS, Linked, training_pairs
from alignkit.classical.hmm.word_classes import BackOff
from alignkit.classical.memory import MemoryLimit
from alignkit.errors import AlignkitError
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import BOTH, LinkArrays
from alignkit.kernels.hmm_emissions import DirectionArrays
from alignkit.kernels.hmm_known import add_known_back_off
from alignkit.kernels.hmm_m_step import BackOffClasses
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.packed_links import clear_links, set_links, sum_unit
from alignkit.parallel import blocks, thread_count
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.units import lowercased

#: Of an adaptation.
ADAPTATION_SETTINGS = replace(JOINT_SETTINGS, lexical_iterations=0, iterations=2, tolerance=0.0)

Ids = tuple[np.ndarray, np.ndarray]


class Adapter:
    """A fitted joint aligner that is adapted to one text after another.

    Args:
        model: as :func:`alignkit.classical.hmm.joint.fit_joint` returns it, or loaded.
        settings: of the adaptation. The model's own are the probability of NULL, the threshold, and whether case
            is folded, words are compared by their spelling, and there is fertility. Pseudo-counts are these, also
            for a model that was fitted without: with none, nothing new could be learned.
        threads: all there are by default; no result depends on it.
        memory: not to be exceeded; what does not fit is kept on disk, with the same result.

    Raises:
        AlignkitError: the model does not have the counts that it was fitted with.
    """

    def __init__(
        self,
        model: JointHMM,
        settings: HMMSettings = ADAPTATION_SETTINGS,
        threads: int | None = None,
        memory: MemoryLimit | None = None,
    ) -> None:
        if model.counts is None:
            raise AlignkitError("a model without counts cannot be adapted")
        self.settings = replace(
            settings,
            fold_case=model.fold_case,
            threshold=model.threshold,
            null_probability=model.forward.null_probability,
            spelling=settings.spelling if model.is_spelled else 0.0,
            fertility=settings.fertility if model.has_fertility else 0.0,
        )
        self.model, self.threads, self.memory = model, threads, memory
        self.known = KnownModel(model, model.counts, self.settings)

    def adapt(self, bitext: Bitext, counted: np.ndarray | None = None) -> JointHMM:
        """The aligner adapted to a bitext, with the links of that as its ``fitted_links``.

        Args:
            bitext: M pairs.
            counted: bool (M,), the pairs that the model was fitted on, by default none: the first links of a pair
                are those that the model finds, but then it is counted once, and not also as a part of the model.
        """
        adapted = fitted_joint(*self._estimated(bitext, counted))
        assert adapted.fitted is not None
        # What was adapted knows only the words of the pairs that it was adapted to.
        return replace(adapted, fitted=replace(adapted.fitted, of_others=self.model))

    def log_odds(self, bitext: Bitext, counted: np.ndarray | None = None) -> tuple[JointHMM, Scores]:
        """The adapted aligner, without ``fitted``, and the log-odds of all links, as of
        :func:`alignkit.classical.hmm.joint.fit_log_odds`; arguments as of :meth:`adapt`."""
        return joint_and_log_odds(*self._estimated(bitext, counted), of_others=self.model)

    def _estimated(
        self, bitext: Bitext, counted: np.ndarray | None
    ) -> tuple[HMMEstimation, Bitext, np.ndarray | None]:
        """The estimation after its last E-step, the text, and its pairs that the estimation saw."""
        text, chosen = training_pairs(bitext)
        text = lowercased(text) if self.settings.fold_case else text
        estimation = AdaptedEstimation(text, self.settings, self.known, thread_count(self.threads), self.memory)
        if counted is not None and (chosen is None or chosen.any()):
            estimation.count_once(counted if chosen is None else counted[chosen], self.model)
        estimate(estimation, last_shares=self.model.shares)
        return estimation, bitext, chosen

    def links_and_probabilities(self, bitext: Bitext, counted: np.ndarray | None = None) -> Linked:
        """Links of a bitext by the aligner adapted to it, and their probabilities, float64 (K,)."""
        return self.adapt(bitext.with_own_words(), counted).fitted_links_and_probabilities


class AdaptedEstimation(HMMEstimation):
    """A joint aligner while it is adapted.

    Args:
        bitext: M pairs, in lower case if the model is.
        settings: of the adaptation.
        known: the model.
        threads: how many to use.
        memory: not to be exceeded.
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        known: KnownModel,
        threads: int,
        memory: MemoryLimit | None = None,
    ) -> None:
        self.known = known
        self.ids = (
            known.model.source.translate(bitext.source.vocabulary),
            known.model.target.translate(bitext.target.vocabulary),
        )
        super().__init__(bitext, settings, BOTH, threads, start=known.model, memory=memory)
        self.excluded = 1.0 if settings.exclude else 0.0

    pairs: _AdaptedPairs

    def _pair_evidence(self, prior: object) -> _AdaptedPairs:
        return _AdaptedPairs(self.bitext, self.settings, self.threads, self.known, self.ids)

    def count_once(self, counted: np.ndarray, model: JointHMM) -> None:
        """Leave what pairs bool (M,) contributed to the model out of its counts, once the text has its own.

        The model does not keep it: it is taken to be what the model expects of these pairs now.
        """
        found, offsets = self.links.elements, self.links.offsets
        work = np.diff(offsets) * counted
        for low, high in blocks(work, max(1, -(-int(work.sum()) // BLOCK_ELEMENTS))):
            chosen = np.flatnonzero(counted[low:high])
            own = model.expected_links(self.bitext.block(low, high).take(chosen).with_own_words())
            elements = found[offsets[low] : offsets[high]]
            are_own = np.repeat(counted[low:high], np.diff(offsets[low : high + 1]))
            linked = elements[are_own]
            set_links(linked, own.values)
            elements[are_own] = linked
            del own, elements, are_own, linked  # before more is needed
        self.pairs.leave_out(self.links)

    def initialise(self) -> None:
        """The parameters of the model, and those of its counts for the text's own word pairs."""
        clear_links(self.links.elements)
        totals = self.pairs.update(self.links)
        forward, reverse = (self._initial(side, totals[side]) for side in (0, 1))
        self.directions = forward, reverse
        self.pairs.start_text()

    def _initial(self, side: int, totals: np.ndarray) -> DirectionArrays:
        states, emitted = self.types[side], self.types[1 - side]
        tokens = len(self.sides[1 - side].tokens)
        direction = uniform_direction(states, emitted, tokens, self.settings.null_probability)
        parameters = self.known.model.directions[side]
        null = self._known_null(side) + self.settings.null_prior
        neutral = np.ones((1, parameters.fertility.shape[1]), np.float32)
        return direction._replace(
            totals=totals,
            null=null.astype(np.float32),
            null_total=float(null.sum()) + self._null_elsewhere(side),
            fertility=np.concatenate([parameters.fertility, neutral])[self.ids[side]],
            transition=parameters.transition,
            initial=parameters.initial,
        )

    def _known_null(self, side: int) -> np.ndarray:
        """float64 (V,): the model's counts of NULL for the words that a direction emits."""
        return taken(self.known.null[side], self.ids[1 - side])

    def _null_elsewhere(self, side: int) -> float:
        """The sum of the model's counts of NULL for words that the text does not have."""
        return max(float(self.known.null[side].sum() - self._known_null(side).sum()), 0.0)

    def _null_counts(self, side: int) -> tuple[np.ndarray, float]:
        null, total = super()._null_counts(side)
        known = self._known_null(side)
        return null + known, total + float(known.sum()) + self._null_elsewhere(side)

    def _transition_counts(self, side: int) -> TransitionCounts:
        counts, parameters = super()._transition_counts(side), self.known.model.directions[side]
        jumps, sentences = float(self.known.totals[side].sum()), counts.initial_shares.max(initial=0.0)
        first = jumps * sentences / max(counts.jump_shares.max(initial=0.0), 1e-30)
        return TransitionCounts(
            jumps=counts.jumps + jumps * parameters.transition,
            jump_shares=counts.jump_shares + jumps,
            initial=counts.initial + first * parameters.initial,
            initial_shares=counts.initial_shares + first,
        )

    def _count_fertilities(self) -> tuple[np.ndarray, ...]:
        counts = super()._count_fertilities()
        return tuple(
            own + taken(known, ids)
            for own, known, ids in zip(counts, self.known.fertilities, self.ids, strict=True)
        )


class _AdaptedPairs(PairEvidence):
    """Counts and pseudo-counts of the word pairs of a text and of a model.

    Args:
        bitext, settings, threads: as of :class:`PairEvidence`.
        known: the model.
        ids: its ids of the text's words.
    """

    def __init__(self, bitext: Bitext, settings: HMMSettings, threads: int, known: KnownModel, ids: Ids) -> None:
        super().__init__(bitext, replace(settings, back_off=0.0), threads, None)
        self.known = KnownPairs(known, ids, self.rows, self.ranges)
        if settings.back_off > 0:
            self.back_off = _AdaptedBackOff(bitext, settings, known, self.known)
        self._counts = self._counts_of_others = self.known.values

    def leave_out(self, links: LinkArrays) -> None:
        """Take links out of the model's counts, from :meth:`start_text` on."""
        own = room_for_sums(self.owned_evidence)  # of which nothing is needed yet
        own[:] = 0
        self._add_links(links, (0, len(own)), own)
        self._counts_of_others = np.empty_like(self._counts)
        for low in range(0, len(own), BLOCK_ELEMENTS):
            part = slice(low, low + BLOCK_ELEMENTS)
            self._counts_of_others[part] = np.maximum(self._counts[part] - own[part] * sum_unit(self._shift), 0)

    def start_text(self) -> None:
        """From now on the text has links of its own."""
        self._counts = self._counts_of_others

    @property
    def _known_counts(self) -> np.ndarray:
        return self._counts

    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        source, target = super()._totals()
        return source + self.known.rest[0], target + self.known.rest[1]


class _AdaptedBackOff(BackOff):
    """Pseudo-counts of word pairs from other pairs of the same classes in a text and in a model."""

    def __init__(self, bitext: Bitext, settings: HMMSettings, known: KnownModel, pairs: KnownPairs) -> None:
        super().__init__(bitext, settings.affixes, settings.back_off)
        words = bitext.source.vocabulary, bitext.target.vocabulary
        self.known: list[TextClassPairs] = [
            each.of_text(classes, words, pairs) for each, classes in zip(known.classes, self.classes, strict=True)
        ]

    def _rest(self, side: int, n: int, totals: np.ndarray) -> np.ndarray:
        return super()._rest(side, n, totals) + self.known[n].rest[side]

    def _add_classes(
        self,
        n: int,
        span: tuple[int, int],
        pairs: BackOffClasses,
        rows: TableRows,
        space: tuple[np.ndarray, np.ndarray],
        evidence: np.ndarray,
    ) -> None:
        add_known_back_off(*span, pairs, self.known[n].pairs, rows, *space, evidence)
