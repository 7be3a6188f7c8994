"""Word alignment models for machine.py, SIL's library of translation (``pip install sil-machine``).

Without that package this module can be imported, but no model can be made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.aligner import Aligner, Reversed, load_aligner
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.lexicon import lexicon_of
from alignkit.errors import AlignkitError, check_type
from alignkit.links.links import AlignedPair, Links
from alignkit.pipeline.align import AlignedText, align
from alignkit.support.packages import MissingPackageError, is_here
from alignkit.text.bitext import Bitext
from alignkit.text.spellings import folded
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

if TYPE_CHECKING or is_here("machine"):
    from machine import corpora, tokenization, translation, utils
    from machine.translation import Ibm1WordAlignmentModel, Trainer, TransductiveWordAlignmentModel
    from machine.translation.word_vocabulary import WordVocabulary
else:
    Ibm1WordAlignmentModel = Trainer = TransductiveWordAlignmentModel = WordVocabulary = object

Words = Sequence[str]
Word = str | int | None  #: a word or its number; None: NULL
SPECIAL = "NULL", "UNKNOWN_WORD"  # the words with the first numbers, as in the models of machine.py
NULL, UNKNOWN = range(2)


class SilAligner(Ibm1WordAlignmentModel):
    """An aligner of any kind, fitted, loaded or to be trained, as a ``WordAlignmentModel`` of machine.py.

    Args:
        model: an aligner of words, or of subwords, which are then made of them; or its file, which trainers write
            and which need not be there before. None: an aligner that is trained, and not written.
        options: of :func:`alignkit.align`, for trainers.

    Raises:
        MissingPackageError: machine.py is not installed.
        AlignkitError: the file is not one of an aligner.
    """

    def __init__(self, model: Aligner | PathLike | None = None, **options: Any) -> None:
        if not is_here("machine"):
            raise MissingPackageError("machine.py is not installed: pip install sil-machine")
        self.path = model if isinstance(model, str | os.PathLike) else None
        if self.path is not None:
            model = load_aligner(self.path) if os.path.exists(self.path) else None
        check_type(model, Aligner | None, "a model must be an aligner or its file")
        self.options = options
        self.trained: AlignedText | None = None
        self._aligner = model.on_words() if isinstance(model, Aligner) else None
        self._latest: dict[tuple[Words, Words], dict[tuple[int, int], float]] = {}

    @property
    def aligner(self) -> Aligner:
        """The aligner, of words; raises AlignkitError if it is not trained yet."""
        if self._aligner is None:
            remedy = "call create_trainer(corpus), its train() and save()"
            raise AlignkitError(f"this model is not trained yet: {remedy}")
        return self._aligner

    def create_trainer(self, corpus: corpora.ParallelTextCorpus) -> Trainer:
        """A trainer of this model by a corpus, whose words are between spaces if it is not tokenized."""
        return _Trainer(self, corpus)

    def align(self, source_segment: Words, target_segment: Words) -> translation.WordAlignmentMatrix:
        """The links of a sentence pair of words."""
        return self.align_batch([(source_segment, target_segment)])[0]

    def align_batch(self, segments: Sequence[Sequence[Words]]) -> list[translation.WordAlignmentMatrix]:
        """The links of each (source words, target words)."""
        bitext = _bitext(segments)
        return self._matrices(AlignedText(bitext, self.aligner, self.aligner.links_and_probabilities(bitext)))

    def _matrices(self, pairs: Iterable[AlignedPair]) -> list[translation.WordAlignmentMatrix]:
        """The links of pairs. Their probabilities are kept: machine.py asks for them next, a pair at a time."""
        self._latest, matrices = {}, []
        for pair in pairs:
            scores = {(link.source, link.target): link.probability for link in pair.links}
            self._latest[pair.source, pair.target] = scores
            shape = len(pair.source), len(pair.target)
            matrices.append(translation.WordAlignmentMatrix.from_word_pairs(*shape, list(scores)))
        return matrices

    def compute_aligned_word_pair_scores(
        self, source_segment: Words, target_segment: Words, word_pairs: Collection[corpora.AlignedWordPair]
    ) -> None:
        """Give each pair of places its link's probability as ``alignment_score``, 0 with NULL; and if there is a
        lexicon, that of the translation as ``translation_score``."""
        with suppress(AlignkitError):
            super().compute_aligned_word_pair_scores(source_segment, target_segment, word_pairs)
        links = {(s, t) for s, t in word_pairs if s >= 0 and t >= 0}
        scores = self._latest.get((tuple(source_segment), tuple(target_segment)), {})
        if not links <= scores.keys():
            bitext, ordered = _bitext([(source_segment, target_segment)]), Links.from_lists([links])
            probabilities = self.aligner.link_probabilities(bitext, ordered).tolist()
            scores = dict(zip(map(tuple, ordered.pairs.tolist()), probabilities, strict=True))
        for pair in word_pairs:
            pair.alignment_score = scores.get(tuple(pair), 0.0)

    @property
    def special_symbol_indices(self) -> Collection[int]:
        """The numbers of NULL and of unknown words."""
        return range(len(SPECIAL))

    @property
    def _lexicon(self) -> LexicalModel:
        if isinstance(self.aligner, Reversed):
            raise AlignkitError("a target-to-source model has no translations of source words")
        return lexicon_of(self.aligner)

    @property
    def source_words(self) -> WordVocabulary:
        """The source words by their numbers; raises AlignkitError if the aligner has no lexicon."""
        return _Vocabulary(self._lexicon.source)

    @property
    def target_words(self) -> WordVocabulary:
        """The target words; else as :attr:`source_words`."""
        return _Vocabulary(self._lexicon.target)

    def get_translations(self, source_word: Word, threshold: float = 0) -> Iterator[tuple[int, float]]:
        """The number of each translation of a word and its probability, above a threshold, the likeliest first."""
        numbers, values = self._translations(source_word)
        order = np.argsort(-values, kind="stable")
        found = zip(numbers[order].tolist(), values[order].tolist(), strict=True)
        return ((number, value) for number, value in found if value > threshold)

    def get_translation_score(self, source_word: Word, target_word: Word) -> float:
        """The probability of a target word as translation of a source word; 0 if there is none."""
        numbers, values = self._translations(source_word)
        return float(values[numbers == self.target_words.index(target_word)].sum())

    get_translation_probability = get_translation_score

    def _translations(self, source_word: Word) -> tuple[np.ndarray, np.ndarray]:
        lexicon, number = self._lexicon, self.source_words.index(source_word)
        columns, values = np.empty(0, int), np.empty(0)
        if number > UNKNOWN:
            columns, values = lexicon.table.row(number - len(SPECIAL))
        elif number == NULL and lexicon.null is not None:
            columns, values = np.arange(len(lexicon.null)), lexicon.null
        return columns + len(SPECIAL), values


class TransductiveSilAligner(SilAligner, TransductiveWordAlignmentModel):
    """One that knows the links of the text that it was trained on.

    ``word_align_corpus`` of machine.py gives pair n of a corpus the links of pair n of that text, whatever the
    corpus: align others with a :class:`SilAligner`.
    """

    @property
    def training_alignment_count(self) -> int:
        """The number of pairs of the training; 0 for an aligner that was given or loaded."""
        return 0 if self.trained is None else len(self.trained)

    def get_training_alignment(self, n: int) -> translation.WordAlignmentMatrix:
        """The links of pair n, from 0; raises AlignkitError if the model was not trained here."""
        if self.trained is None:
            raise AlignkitError("this model was not trained here, and has no training alignments: use SilAligner")
        return self._matrices([self.trained[n]])[0]


class _Trainer(Trainer):
    """Fits an aligner with :func:`alignkit.align`; the model gets it when it is saved."""

    def __init__(self, model: SilAligner, corpus: corpora.ParallelTextCorpus) -> None:
        self._model, self._corpus, self._stats = model, corpus, translation.TrainStats()
        self._aligned: AlignedText | None = None

    @property
    def stats(self) -> translation.TrainStats:
        return self._stats

    def train(
        self, progress: Callable[..., None] | None = None, check_canceled: Callable[[], None] | None = None
    ) -> None:
        def report(step: int, steps: int, message: str) -> None:
            if progress is not None:
                progress(utils.ProgressStatus.from_step(step, steps, message))
            if check_canceled is not None:
                check_canceled()

        with self._corpus.tokenize(tokenization.WhitespaceTokenizer()).get_rows() as rows:
            bitext = _bitext(list(rows))
        self._aligned = align(bitext, progress=report, **self._model.options)
        self._stats.train_corpus_size = int((bitext.shapes > 0).all(axis=1).sum())

    def save(self) -> None:
        if self._aligned is None:
            raise AlignkitError("there is nothing to save yet: call train() first")
        model, aligner = self._model, self._aligned.aligner
        if model.path is not None:
            aligner.save(model.path)
        model.trained, model._aligner, model._latest = self._aligned, aligner, {}


class _Vocabulary(WordVocabulary):
    """NULL, unknown words, and then the words of a vocabulary, which may be those that the joint model folds."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(SPECIAL) + len(self._words)

    def __getitem__(self, number: int) -> str:
        number = range(len(self))[number]
        return SPECIAL[number] if number < len(SPECIAL) else self._words[number - len(SPECIAL)]

    def index(self, word: Word) -> int:
        """The number of a word; of a number, itself."""
        if isinstance(word, int):
            return word
        if word is None:
            return NULL
        # The number of a word that the vocabulary does not know is -1, and here UNKNOWN.
        return len(SPECIAL) + self._words.id(word if word in self._words else folded(word))


def _bitext(segments: Sequence[Sequence[Words]]) -> Bitext:
    return Bitext.from_sentences([pair[0] for pair in segments], [pair[1] for pair in segments])
