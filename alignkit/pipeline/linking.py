"""Link texts by a fitted aligner: load it, adapt it to each block if it is to be, link."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from alignkit import scores as score_files
from alignkit.aligner import Aligner, Symmetrized, WordLevel, check_directions, load_aligner
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import JointHMM
from alignkit.errors import AlignkitError, check_type
from alignkit.links.heuristics import DEFAULT_METHOD
from alignkit.links.links import Links
from alignkit.pipeline.aligned_text import BLOCK, AlignedText
from alignkit.pipeline.settings import AlignSettings, ReadSettings
from alignkit.scores import Scores
from alignkit.support.files import read_header
from alignkit.text import bitext as bitext_files
from alignkit.text.bitext import Bitext
from alignkit.text.blocks import element_bounds
from alignkit.types import PathLike

#: Elements of the matrices, the sum of (T + 1)(L + 1), that a joint model is adapted to at a time: the more, the
#: better it gets; with so many, the process takes 1.5 GB.
ADAPTED_ELEMENTS = 1 << 26


#: A fitted aligner or the file of one; or two of them, source to target and target to source.
Model = Aligner | PathLike | tuple[Aligner | PathLike, Aligner | PathLike]


#: header kind of a saved npz that is no aligner -> its loader
_LOADERS: dict[str, Callable[[PathLike], Scores | Bitext]] = {
    score_files.KIND: Scores.load,
    bitext_files.KIND: Bitext.load,
}


class Linker:
    """A fitted aligner that links the pairs of texts.

    Args:
        model, threads: as in :func:`align`.
        settings: how to link.

    Attributes:
        aligner: of whitespace words.
        reading: how to read a text, the fields of :class:`ReadSettings`.
        adapter: where the aligner is adapted to each block of pairs.
        elements: of the blocks of pairs that it is adapted to; None: blocks have :data:`BLOCK` pairs.
        depends_on_block: True if the links of a pair depend on the other pairs of its block.

    Raises:
        AlignkitError: the model cannot be read, or a setting is not for it.
    """

    def __init__(self, model: Model, settings: AlignSettings, threads: int | None) -> None:
        settings.check_model()
        linking = settings.linking
        if isinstance(model, tuple | list):
            if len(model) != 2:
                problem = f"give one model, or a pair of opposite directions, not a list of {len(model)}"
                raise AlignkitError(problem)
            forward, reverse = (loaded_model(each, threads) for each in model)
            heuristic = linking.symmetrization or DEFAULT_METHOD
            both = Symmetrized(forward, reverse, heuristic, linking.threshold, threads)
            check_directions(both.forward, both.reverse)
            aligner: Aligner = both
        elif linking.symmetrization is not None:
            raise AlignkitError("a heuristic combines two models; give a pair of them, or none")
        else:
            aligner = loaded_model(model, threads)
            if linking.threshold is not None:
                aligner = aligner.with_threshold(linking.threshold)
            aligner = aligner.on_words()
        self.aligner = aligner
        self.reading = read_options(settings.reading, aligner.raw_text)
        self.adapter: Adapter | None = None
        if linking.adapt:
            if not isinstance(aligner, JointHMM):
                of = f"{os.fspath(model)}: " if isinstance(model, str | os.PathLike) else ""
                problem = f"a model of kind {aligner.name} cannot be adapted to a text"
                raise AlignkitError(f"{of}{problem}; one of `alignkit align` can")
            self.adapter = Adapter(aligner, threads=threads)
        self.elements = None if self.adapter is None else ADAPTED_ELEMENTS
        parts = (aligner.forward, aligner.reverse) if isinstance(aligner, Symmetrized) else (aligner,)
        self.depends_on_block = self.adapter is not None or any(isinstance(part, WordLevel) for part in parts)

    def linked(self, bitext: Bitext) -> AlignedText:
        """A text with its links, found a block at a time."""
        if self.elements is None:
            return AlignedText(bitext, self.aligner, block=BLOCK)
        bounds = element_bounds([bitext], self.elements).tolist()
        parts = [self.linked_block(bitext.block(low, high)) for low, high in pairwise(bounds)]
        links = Links.concatenated([part.links for part in parts])
        probabilities = np.concatenate([np.empty(0), *(part.probabilities for part in parts)])
        return AlignedText(bitext, self.aligner, (links, probabilities))

    def linked_block(self, bitext: Bitext, counted: np.ndarray | None = None) -> AlignedText:
        """One block of a text with its links.

        Args:
            bitext: M pairs.
            counted: bool (M,), the pairs that the model was fitted on, for one that is adapted
                (:meth:`alignkit.classical.hmm.adaptation.Adapter.adapt`).
        """
        if self.adapter is None:
            return AlignedText(bitext, self.aligner, block=BLOCK)
        counted = np.zeros(len(bitext), bool) if counted is None else counted
        return AlignedText(bitext, self.aligner, self.adapter.links_and_probabilities(bitext, counted))


def read_options(settings: ReadSettings, raw_text: bool) -> dict[str, Any]:
    """How to read a text: where the settings do not say whether to tokenize it, a model does."""
    return vars(settings) | ({"tokenize": raw_text} if settings.tokenize is None else {})


def loaded_model(model: Aligner | PathLike, threads: int | None) -> Aligner:
    if isinstance(model, str | os.PathLike):
        return load_aligner(model, threads)
    check_type(model, Aligner, "a model must be an aligner or its file")
    return model if threads is None else model.with_threads(threads)


def load(path: PathLike, threads: int | None = None) -> Aligner | Scores | Bitext:
    """Load a file that ``save`` wrote: a fitted aligner, scores or a bitext; a checkpoint or a run directory.

    Args:
        path: the file or folder.
        threads: of an aligner, as in :func:`alignkit.aligner.load_aligner`.

    Raises:
        InputError: the file is missing, damaged, or none of these.
        AlignkitError: ``path`` is no path.
    """
    check_type(path, str | os.PathLike, "what is loaded must be a file or folder")
    header = (read_header(path) if Path(path).is_file() else None) or {}
    loader = _LOADERS.get(str(header.get("kind")))
    return load_aligner(path, threads) if loader is None else loader(path)
