"""Adaptation of fitted models of several views to other texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.adaptation import ADAPTATION_SETTINGS, Adapter
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.joint_aligner import FittedText
from alignkit.classical.hmm.joint_views import JointViews, judged, settings_of_view, within_memory
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.views import ViewedText
from alignkit.classical.hmm.windows import Linked, training_pairs
from alignkit.classical.memory import MemoryLimit
from alignkit.parallel import thread_count
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


class ViewsAdapter:
    """Fitted models of several views that are adapted to one text after another, each as it sees that text.

    Args:
        model: as :func:`alignkit.classical.hmm.joint_views.fit_views` returns it, or loaded.
        settings, threads, memory: as of :class:`alignkit.classical.hmm.adaptation.Adapter`.

    Raises:
        AlignkitError: a model does not have the counts that it was fitted with.
    """

    def __init__(
        self,
        model: JointViews,
        settings: HMMSettings = ADAPTATION_SETTINGS,
        threads: int | None = None,
        memory: MemoryLimit | None = None,
    ) -> None:
        self.model, self.threads, self.memory = model, threads, memory or MemoryLimit()
        self._adapters = [
            Adapter(each, settings_of_view(settings, view), threads, memory)
            for view, each in zip(model.views, model.models, strict=True)
        ]

    def adapt(self, bitext: Bitext, counted: np.ndarray | None = None) -> JointViews:
        """The aligner adapted to a bitext, with the links of that as its ``fitted_links``; arguments as of
        :meth:`alignkit.classical.hmm.adaptation.Adapter.adapt`."""
        text, chosen = training_pairs(bitext)
        if counted is not None and chosen is not None:
            counted = counted[chosen] if chosen.any() else None

        def fit(n: int, viewed: ViewedText) -> tuple[JointHMM, Scores]:
            return self._adapters[n].log_odds(viewed.bitext, counted)

        threads, (total, rest) = thread_count(self.threads), within_memory(text, self.memory)
        for adapter in self._adapters:
            adapter.memory = rest
        models, probabilities = judged(self.model.views, text, chosen, fit, total, threads)
        fitted = FittedText(bitext, probabilities, chosen, of_others=self.model)
        return replace(self.model, models=models, fitted=fitted)

    def links_and_probabilities(self, bitext: Bitext, counted: np.ndarray | None = None) -> Linked:
        """Links of a bitext by the aligner adapted to it, and their probabilities, float64 (K,)."""
        return self.adapt(bitext.with_own_words(), counted).fitted_links_and_probabilities


def adapter_of(
    model: JointHMM | JointViews, threads: int | None = None, memory: MemoryLimit | None = None
) -> Adapter | ViewsAdapter:
    """What adapts a fitted model to texts; raises AlignkitError if it cannot be adapted."""
    if isinstance(model, JointViews):
        return ViewsAdapter(model, threads=threads, memory=memory)
    return Adapter(model, threads=threads, memory=memory)
