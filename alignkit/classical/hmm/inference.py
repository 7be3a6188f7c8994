"""Links of a text by a fitted model: what it knows of pairs of words, and what it makes of those that it has never
seen, and of sentence pairs that it has."""

from __future__ import annotations

import numpy as np

from alignkit.classical.hmm.background import BackgroundModel
from alignkit.classical.hmm.e_step import pair_blocks, text_arrays, uniform_direction
from alignkit.classical.hmm.model import FittedHMM
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.spelling import chances_of, learned_edits, letters_of, plain_words
from alignkit.classical.hmm.word_classes import FEW
from alignkit.kernels import inference as kernels
from alignkit.kernels.hmm_e_step import DirectionArrays, OpinionPool, TextArrays
from alignkit.kernels.inference import ClassTable, KnownPairs, NewPairs, Spellings, Words
from alignkit.kernels.spelling import Edits, Letters, SpelledWords
from alignkit.kernels.translation_table import UNSEEN
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import run_blocks, thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import ExtendedVocabulary

# Fertility needs the links of the other words: they are found without it first, and then this many times with it.
ROUNDS = 2
#: The least work of a block of pairs, L T (L + T): so much that a call of the kernel for it hardly counts.
LEAST_WORK = 1 << 16
#: A text with this share of types among its tokens, or a higher one, hardly repeats any word.
UNREPEATED, STEEPNESS = 0.75, 4
#: Models of more letters are those of Chinese and the like, whose words are short; pairs of letters would be many.
MOST_LETTERS = 1000
NO_LETTERS = Letters(np.empty(0, np.int32), np.zeros(1, np.int64))
NO_SPELLINGS = Spellings(Edits(np.empty((0, 0)), np.empty(0), np.empty(0)), np.empty((2, 0)))
NO_CLASSES = ClassTable(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


class Inference:
    """A fitted model that is ready to link texts.

    Pairs of words that never met in its text get what a fit with :data:`.settings.JOINT_SETTINGS` would give them,
    if ``background`` is given: a pseudo-count of all pairs, that of their spelling if the model was fitted with
    such, and that of the other pairs of the same classes (:class:`alignkit.classical.hmm.word_classes.BackOff`).
    p(y|x) is their sum divided by the count of x and 1. A model that was fitted with other pseudo-counts, or
    without, gets these too: with none, words that it does not know could not be linked. Else such pairs are
    equally likely, but for their spelling.

    Sentence pairs of the model's own text are judged by the counts of the others, if that is asked for. In the fit
    a link is judged by the counts of other places (:func:`alignkit.kernels.hmm_e_step.emissions`). A fitted model
    that links the same text again would find a pair's own links among its counts, and rare words would confirm
    whatever they were linked to. So at most one link of each word pair, which is its own, is taken out.

    Args:
        model: fitted.
        background: of a model of both directions, its counts.
    """

    def __init__(self, model: FittedHMM, background: BackgroundModel | None = None) -> None:
        self.model, self.background, table = model, background, model.table
        counts = table.values if background is None else background.pairs
        emissions = model.directions[0].emission, model.directions[-1].emission
        self.table = KnownPairs(table.offsets, table.columns, *emissions, counts)
        self.own, self.is_learned = 0.0, False
        self.alphabet: dict[str, int] = {}
        self.letters, self.spellings = (NO_LETTERS, NO_LETTERS), NO_SPELLINGS
        if model.is_spelled:
            self._learn_letters()
        self.classes = NO_CLASSES
        self._classes_of_words = [np.empty((0, size), np.int32) for size in table.shape]
        self._class_totals, self._first_classes = [np.zeros(1)] * 2, [np.zeros(1, np.int64)] * 2
        if background is not None:
            self._count_classes(background)
            self.own = self._repetition(background)
        # Made once, for they are as large as the vocabularies, and a text may be a single pair.
        self.words = [self._words(side) for side in (0, 1)]
        self._directions: dict[OpinionPool, tuple[DirectionArrays, ...]] = {}

    def _learn_letters(self) -> None:
        """The letters of the model's words, and, of those of both sides, which correspond in its links: as
        :class:`alignkit.classical.hmm.spelling.Transliteration` does while a model is fitted, but of any size of
        its text, for what is new is rare."""
        source, target, alphabet = letters_of(self.model.source, self.model.target)
        self.letters, self.alphabet = (source, target), {chr(c): n for n, c in enumerate(alphabet.tolist())}
        background = self.background
        if background is None or not len(background.pairs) or len(alphabet) > MOST_LETTERS:
            return
        chances = chances_of(source, target, len(alphabet) + 1)  # the last letter is any other
        table, words = self.model.table, SpelledWords(source, target, chances)
        edits = learned_edits(table.rows, table.columns, background.pairs, background.totals, words)
        self.spellings, self.is_learned = Spellings(edits, chances), True

    def _count_classes(self, background: BackgroundModel) -> None:
        """The counts of all kinds of classes in one table, numbered one kind after the other."""
        kinds, sides = background.classes, (0, 1)
        self._first_classes = [offsets_of([len(kind.ids[side]) for kind in kinds]) for side in sides]
        rows, columns, counts = [], [], []
        for kind, first in zip(kinds, self._first_classes[1], strict=False):
            rows.append(np.diff(kind.table.offsets))
            columns.append(kind.table.columns + np.int32(first))
            counts.append(kind.table.values)
        self.classes = ClassTable(
            offsets_of(np.concatenate(rows)), np.concatenate(columns), np.concatenate(counts)
        )
        self._classes_of_words = [
            np.stack([kind.of[side] + first for kind, first in zip(kinds, firsts, strict=False)]).astype(np.int32)
            for side, firsts in zip(sides, self._first_classes, strict=True)
        ]
        self._class_totals = [
            np.concatenate([*(kind.totals[side] for kind in kinds), np.zeros(1)]) for side in sides
        ]

    def _repetition(self, background: BackgroundModel) -> float:
        """The share of a pair's own link that is taken out; without pseudo-counts, counts are kept whole."""
        links = float(background.pairs.sum(dtype=np.float64))
        tokens = (links + background.null_totals[1], links + background.null_totals[0])
        ratios = [types / max(number, 1.0) for types, number in zip(self.model.table.shape, tokens, strict=True)]
        return share_of_repetition(max(ratios)) if self.model.forward.emission_floor.any() else 0.0

    def _words(self, side: int) -> Words:
        """What the model knows of the words of a side."""
        model, background, size = self.model, self.background, self.model.table.shape[side]
        floor, alike = np.zeros(size + 1, np.float32), np.zeros(size + 1, np.float32)
        if side < len(model.directions):
            own = model.directions[side]
            # An unknown word may be anything.
            floor = np.append(own.emission_floor, np.float32(1 / max(len(own.null), 1)))
            alike = own.emission_alike
        totals = np.empty(0) if background is None else np.append(background.totals[side], 0.0)
        classes, letters = self._classes_of_words[side], self.letters[side]
        return Words(floor, alike, totals, self._class_totals[side], classes, classes[:, :0], letters, NO_LETTERS)

    def _directions_of(self, pool: OpinionPool) -> tuple[DirectionArrays, ...]:
        """The parameters of both directions, by word with one more element, for new words."""
        if pool not in self._directions:
            sizes, found = self.model.table.shape, []
            for side, weight in enumerate((pool.forward, pool.reverse)):
                direction = uniform_direction(sizes[side] + 1, sizes[1 - side] + 1, 0, 0.5)
                if weight > 0:
                    own = self.model.directions[side]
                    fertility = np.ones((1, own.fertility.shape[1]), np.float32)
                    direction = direction._replace(
                        totals=np.ones(sizes[side] + 1, np.float32),
                        null=np.maximum(np.append(own.null, np.float32(0)), np.float32(UNSEEN)),
                        null_total=1.0,
                        fertility=np.concatenate([own.fertility, fertility]),
                        transition=own.transition,
                        initial=own.initial,
                        final=own.final,
                        null_probability=own.null_probability,
                    )
                found.append(direction)
            self._directions[pool] = tuple(found)
        return self._directions[pool]

    def links(
        self, bitext: Bitext, pool: OpinionPool, threads: int, without_own: bool = False
    ) -> tuple[Scores, np.ndarray]:
        """What both directions say of the links (T, L) of M pairs, put together, and the log-likelihood of each,
        float64 (M,).

        Args:
            bitext: M pairs.
            pool: of both directions' posteriors; the log-likelihoods of two are added. Fertility is judged by the
                mean of both.
            threads: how many to use; no result depends on it.
            without_own: judge pairs of the model's own text by the counts of the others.
        """
        text, model, letters = self._text(bitext)
        shapes = bitext.shapes
        offsets = flat_offsets(shapes)
        links, likelihood = np.empty(offsets[-1], np.float32), np.zeros(len(bitext))
        new, directions = self._new_pairs(without_own), self._directions_of(pool)
        rounds = 1 + ROUNDS * any(each.fertility.shape[1] > 1 for each in directions)
        arrays = text, offsets, model, new, letters, directions, rounds, pool, links, likelihood
        run_blocks(lambda *span: kernels.find_links(*span, *arrays), pair_blocks(bitext, LEAST_WORK), threads)
        return Scores.unchecked(links, offsets, shapes), likelihood

    def _new_pairs(self, without_own: bool) -> NewPairs:
        background, settings = self.background, JOINT_SETTINGS
        return NewPairs(
            has_counts=background is not None,
            is_spelled=self.model.is_spelled,
            is_learned=self.is_learned,
            dirichlet=settings.dirichlet,
            spelling=settings.spelling,
            back_off=settings.back_off / max(len(self._classes_of_words[0]), 1),
            few=FEW,
            own=self.own if without_own else 0.0,
            letters=len(self.alphabet) + 1,
        )

    def _text(self, bitext: Bitext) -> tuple[TextArrays, tuple[object, ...], int]:
        """A text in the model's numbers of words; what the model knows of them; and the number of letters."""
        alphabet, tokens, words = self.alphabet.copy(), [], []
        sides = (bitext.source, self.model.source), (bitext.target, self.model.target)
        for side, (corpus, known) in enumerate(sides):
            vocabulary, own = corpus.vocabulary, corpus.tokens
            if isinstance(vocabulary, ExtendedVocabulary) and vocabulary.known is known:
                unknown = vocabulary.new
            else:
                ids = known.translate(vocabulary)
                new = np.flatnonzero(ids < 0)
                ids[new] = len(known) + np.arange(len(new), dtype=np.int32)
                own, unknown = ids[own], [vocabulary[i] for i in new.tolist()]
            tokens.append(own)
            words.append(self._with_new(side, unknown, alphabet) if unknown else self.words[side])
        text = text_arrays(bitext)._replace(x=tokens[0], y=tokens[1])
        return text, (self.table, *words, self.classes, self.spellings), len(alphabet)

    def _with_new(self, side: int, new: list[str], alphabet: dict[str, int]) -> Words:
        """The words of a side with new ones, whose letters are added to the alphabet."""
        firsts, unknown = self._first_classes[side], len(self._class_totals[side]) - 1
        kinds = () if self.background is None else self.background.classes
        classes = np.empty((len(kinds), len(new)), np.int32)
        for kind, first, row in zip(kinds, firsts.tolist(), classes, strict=False):
            row[:] = kind.classes_of(side, new)
            row[:] = np.where(row >= 0, row + first, unknown)
        letters = NO_LETTERS
        if self.model.is_spelled:
            plain = plain_words(new)
            ids = [alphabet.setdefault(letter, len(alphabet)) for word in plain for letter in word]
            letters = Letters(np.array(ids, np.int32), offsets_of([len(word) for word in plain]))
        return self.words[side]._replace(new_classes=classes, new_letters=letters)


def share_of_repetition(ratio: float) -> float:
    """The share of a link's own expectation that is taken out of the counts that judge it.

    In a text with this number r of types for each token it is 1 - (r / 0.75)^4, at least 0. In a text of a few
    sentences nearly every link is the only evidence for itself: without it, nothing is left to choose by.
    """
    return max(0.0, 1 - (ratio / UNREPEATED) ** STEEPNESS)


def inference_of(model: FittedHMM) -> Inference:
    """The inference by a model, made when it is first needed; pairs of words that it does not know are equally
    likely, but for their spelling."""
    kept = vars(model)
    if "inference" not in kept:
        kept["inference"] = Inference(model)
    found: Inference = kept["inference"]
    return found


def posteriors(
    bitext: Bitext, model: FittedHMM, pool: OpinionPool, threads: int | None
) -> tuple[Scores, np.ndarray]:
    """Link probabilities (T, L) of M pairs, and the log-likelihood of each, float64 (M,).

    Pairs of words that the model does not know are equally likely, but for their spelling.

    Args:
        bitext: the text.
        model: with one direction or both.
        pool: of both directions' posteriors, which makes the result; the log-likelihoods of two are added.
            Fertility is judged by the mean of both.
        threads: all there are by default; no result depends on it.
    """
    links, likelihood = inference_of(model).links(bitext, pool, thread_count(threads))
    np.clip(links.values, 0, 1, out=links.values)
    return links, likelihood


def log_likelihoods(bitext: Bitext, model: FittedHMM, pool: OpinionPool, threads: int | None) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, up to the factor for its length; arguments of :func:`posteriors`.

    Without fertility, whose factors are for links given the others, and without spelling, which gives words that
    the model has never seen together more than is left for them: neither makes a distribution over sentences.
    """
    return posteriors(bitext, model.plain, pool, threads)[1]
