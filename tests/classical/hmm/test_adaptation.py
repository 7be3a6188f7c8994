import itertools
from collections import Counter, defaultdict
from dataclasses import replace

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, error_rate, expected_links, inflected_pairs, random_pairs, scrambled

from alignkit.classical.cooccurrence import IndexedBitext
from alignkit.classical.hmm.adaptation import ADAPTATION_SETTINGS, Adapter
from alignkit.classical.hmm.background import LEAST_COUNT, BackgroundModel, counts_of_pairs
from alignkit.classical.hmm.hmm import HMMEstimation
from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.views import View
from alignkit.classical.hmm.word_classes import FEW
from alignkit.errors import InputError
from alignkit.kernels.hmm_e_step import BOTH
from alignkit.kernels.hmm_m_step import SOME
from alignkit.kernels.hmm_rows import FERTILITIES


def test_a_model_links_new_words_of_known_classes_and_learns_others_from_the_text():
    model = fit_joint(bitext_of(inflected_pairs(1, 150)[0]))
    text, planted = inflected_pairs(2, 40)
    bitext = bitext_of(text)
    assert sum(word not in model.source for word in bitext.source.vocabulary) > 20
    assert error_rate(model.links(bitext), planted) < 0.01
    # Words that no code turns into each other.
    foreign = bitext_of(
        [([scrambled("s" + word) for word in x], [scrambled(word) for word in y]) for x, y in text * 3]
    )
    plain = error_rate(model.links(foreign), planted * 3)
    assert error_rate(Adapter(model).adapt(foreign).fitted_links, planted * 3) < 0.6 * plain


def test_adapting_to_a_text_changes_neither_the_model_nor_what_it_says_of_the_next(tmp_path):
    model = fit_joint(bitext_of(random_pairs(3, pairs=150)))
    model.save(tmp_path / "m.npz")
    first, second = bitext_of(random_pairs(4, pairs=40)), bitext_of(random_pairs(5, pairs=30, source_types=30))
    adapter = Adapter(model, threads=1)
    adapter.adapt(first)
    after = adapter.adapt(second).fitted_probabilities.values.tobytes()
    for threads in (1, 3):
        other = Adapter(load_joint(tmp_path / "m.npz"), threads=threads).adapt(second)
        assert other.fitted_probabilities.values.tobytes() == after


@pytest.mark.usefixtures("small_windows")
def test_texts_of_blank_unknown_and_long_pairs():
    text, _planted = inflected_pairs(6, 150)
    adapter = Adapter(fit_joint(bitext_of(text)))
    long = [word for x, _ in text for word in x][:530], [word for _, y in text for word in y][:530]
    pairs = [([], ["a00z1"]), (["a00q1"], []), (["new"], ["neu"]), long, (["A00Q1", "b01q2"], ["a00z1"])]
    links = adapter.adapt(bitext_of(pairs)).fitted_links
    assert [len(pair) for pair in links][:3] == [0, 0, 1]
    assert len(links[3]) > 250
    assert [0, 0] in links[4].tolist()
    for few in ([], [([], [])], pairs[3:4]):
        assert len(adapter.adapt(bitext_of(few)).fitted_links) == len(few)


def test_wrong_counts_are_refused(tmp_path):
    model = fit_joint(bitext_of(random_pairs(3, pairs=20)), views=(View(),))
    words = model.words
    for wrong in (words.counts.pairs[:-1], -words.counts.pairs - 1):
        with pytest.raises(ValueError):
            replace(words, counts=replace(words.counts, pairs=wrong))
    object.__setattr__(words.counts, "null", np.full(2, np.nan, np.float32))
    model.save(tmp_path / "m.npz")
    with pytest.raises(InputError, match="damaged"):
        load_joint(tmp_path / "m.npz")


def test_adaptation_goes_by_what_the_model_was_fitted_with(tmp_path):
    bitext, other = bitext_of(random_pairs(3, pairs=60)), bitext_of(random_pairs(4, pairs=20))
    for options in ({}, {"null_probability": 0.3}, {"spelling": 0.0}, {"fertility": 0.0}):
        fit_joint(bitext, **options).save(tmp_path / "m.npz")
        model = load_joint(tmp_path / "m.npz")
        adapted, model = Adapter(model).adapt(other).words, model.words
        for direction in adapted.directions:
            assert direction.null_probability == options.get("null_probability", JOINT_SETTINGS.null_probability)
        assert adapted.is_spelled == model.is_spelled == (options != {"spelling": 0.0})
        assert adapted.has_fertility == model.has_fertility == (options != {"fertility": 0.0})


def test_new_words_are_learned_by_a_model_without_pseudo_counts():
    model = fit_joint(bitext_of(inflected_pairs(1, 100)[0]), HMMSettings())
    text, planted = inflected_pairs(2, 40)
    foreign = bitext_of(
        [([scrambled("s" + word) for word in x], [scrambled(word) for word in y]) for x, y in text * 3]
    )
    assert error_rate(Adapter(model).adapt(foreign).fitted_links, planted * 3) < 0.5


class Joined:
    """What a model counted and what an adaptation to a text has counted, word by word, in dictionaries.

    ``side`` is that of the words x whose translations y a direction emits.
    """

    def __init__(self, model, known, bitext, estimation, side):
        self.model, self.known, self.bitext, self.estimation, self.side = model, known, bitext, estimation, side
        self.names = tuple(list(corpus.vocabulary) for corpus in (bitext.source, bitext.target))
        self.x, self.y = self.names[side], self.names[1 - side]
        known_names = list(model.source), list(model.target)
        self.known_x, self.known_y = known_names[side], known_names[1 - side]
        table, turn = model.table, slice(None, None, -1 if side else 1)
        rows = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets)).tolist()
        self.counts = defaultdict(float)  # of pairs (x, y)
        for i, o, n in zip(rows, table.columns.tolist(), model.counts.pairs.tolist(), strict=True):
            self.counts[(known_names[0][i], known_names[1][o])[turn]] += n
        self.met = set()
        links = expected_links(estimation)
        self.fertilities = {word: np.zeros(FERTILITIES) for word in self.x}
        for m, matrix in enumerate(links):
            source, target = bitext.source.words(m), bitext.target.words(m)
            for (t, o), (s, i) in itertools.product(enumerate(target), enumerate(source)):
                self.counts[(i, o)[turn]] += float(matrix[t, s])
                self.met.add((i, o)[turn])
            words, chances = (target, matrix) if side else (source, matrix.T)
            for word, row in zip(words, chances, strict=True):
                some = np.where(row > SOME, row, 0).astype(float)  # what is less is left out
                self.fertilities[word] += naive.fertility_chances(some, FERTILITIES - 1)
        for word, numbers in zip(self.known_x, known.fertilities[side], strict=True):
            if word in self.fertilities:
                self.fertilities[word] += numbers
        self.null = defaultdict(float)  # of words y
        for word, n in zip(self.known_y, model.directions[side].null.tolist(), strict=True):
            self.null[word] += n * float(model.counts.null[side])
        tokens = (bitext.source, bitext.target)[1 - side].tokens.tolist()
        for token, n in zip(tokens, estimation.directions[side].null_links.tolist(), strict=True):
            self.null[self.y[token]] += n

    def back_off(self, settings):
        """{(x, y): pseudo-count} from other pairs of the same classes."""
        found, affixes = defaultdict(float), settings.affix_slices
        emitted = (self.bitext.source, self.bitext.target)[1 - self.side].tokens
        frequency = Counter(self.y[token] for token in emitted.tolist())
        for part in affixes:
            both, row, own, in_class = (defaultdict(float) for _ in range(4))
            for (x, y), n in self.counts.items():
                both[x[part], y[part]] += n
                row[x[part]] += n
                own[x] += n
            for y, n in frequency.items():
                in_class[y[part]] += n
            for x, y in self.met:
                others, rest = both[x[part], y[part]] - self.counts[x, y], row[x[part]] - own[x]
                weight = settings.back_off / len(affixes) / (rest + FEW)
                found[x, y] += weight * others * frequency[y] / in_class[y[part]]
        return found

    def transitions(self):
        """Weights of jumps and first positions: numbers divided by where they were possible.

        The model has a jump for each of its links, all of them possible everywhere, and as many of them to a
        sentence as this text.
        """
        own, parameters = self.estimation.expectation.transitions[self.side], self.model.directions[self.side]
        jumps = sum(self.model.counts.pairs.tolist())
        sentences = jumps * own.initial_divisors.max() / own.jump_divisors.max()
        weights = (
            (own.jumps + jumps * parameters.transition) / (own.jump_divisors + jumps),
            (own.initial + sentences * parameters.initial) / (own.initial_divisors + sentences),
        )
        return [each / each.sum() for each in weights]


@pytest.mark.parametrize("side", [0, 1])
def test_the_m_step_is_that_of_the_counts_of_model_and_text_joined(side):
    """Every parameter, from sums over words in plain Python; some words and pairs only one of both has."""
    text = inflected_pairs(8, 25, stems=14)[0]
    others = [pair for x, y in text[:10] for pair in ((x[:1], ["new" + x[0]]), (["neu" + y[0]], y[:1]))]
    model = fit_joint(bitext_of(inflected_pairs(7, 60, stems=12)[0] + 2 * others)).words
    pairs = np.where(model.counts.pairs < LEAST_COUNT, 0, model.counts.pairs)  # which tell classes nothing
    model = replace(model, counts=replace(model.counts, pairs=pairs.astype(np.float32)))
    settings = replace(ADAPTATION_SETTINGS, spelling=0.0, punctuation=1.0, transition_prior=0.0)
    bitext = bitext_of(text)
    known = BackgroundModel(model, model.counts, settings)
    estimation = HMMEstimation(bitext, settings, BOTH, 1, background=known)
    estimation.initialise()
    emitted = (bitext.source, bitext.target)[1 - side].vocabulary
    of_model = float(model.counts.null[side]) + settings.null_prior * len(emitted)
    assert estimation.directions[side].null_total == pytest.approx(of_model, rel=1e-4)
    estimation.e_step()
    joined = Joined(model, known, bitext, estimation, side)
    transition, initial = joined.transitions()
    estimation.m_step()

    table, _, (found,) = estimation.release(side)
    null_total = sum(joined.null.values()) + settings.null_prior * len(joined.y)
    assert set(joined.null) > set(joined.y)  # the model has words of its own
    assert estimation.directions[side].null_total == pytest.approx(null_total, rel=1e-4)
    null = [(joined.null[y] + settings.null_prior) / null_total for y in joined.y]
    assert found.null == pytest.approx(null, rel=1e-3, abs=1e-9)

    assert np.allclose(found.transition / found.transition.sum(), transition, rtol=1e-3, atol=1e-7)
    assert np.allclose(found.initial / found.initial.sum(), initial, rtol=1e-3, atol=1e-7)

    fertilities = np.array([joined.fertilities[x] for x in joined.x])
    general = fertilities.sum(axis=0) + 0.5
    fertilities += settings.fertility_prior * general / general.sum()
    factors = (fertilities[:, 1:] / fertilities[:, :-1]) ** settings.fertility
    assert np.allclose(found.fertility, factors, rtol=1e-2, atol=1e-4)

    pseudo_counts = joined.back_off(settings)
    totals, of_row = Counter(), defaultdict(set)
    for (x, _), n in joined.counts.items():
        totals[x] += n
    for x, y in joined.met:
        totals[x] += pseudo_counts[x, y] + settings.dirichlet
        of_row[x].add(y)
    elsewhere = [n for (x, y), n in joined.counts.items() if x in of_row and y not in of_row[x]]
    assert sum(elsewhere) > 5  # the model has other pairs of the text's words
    assert found.emission_floor == pytest.approx([settings.dirichlet / totals[x] for x in joined.x], rel=1e-3)
    found_emission = {}
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets)).tolist()
    for i, o, p in zip(rows, table.columns.tolist(), found.emission.tolist(), strict=True):
        found_emission[(joined.names[0][i], joined.names[1][o])[:: -1 if side else 1]] = p
    assert found_emission == pytest.approx(
        {
            (x, y): (joined.counts[x, y] + pseudo_counts[x, y] + settings.dirichlet) / totals[x]
            for x, y in joined.met
        },
        rel=2e-3,
        abs=1e-6,
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_what_a_model_knows_of_a_text_is_its_counts(threads):
    """Of each pair, of the other pairs of a word, and of pairs of the same classes, by dictionaries."""
    model = fit_joint(bitext_of(inflected_pairs(7, 60, stems=12)[0])).words
    bitext = bitext_of(inflected_pairs(8, 25, stems=14)[0])
    names = tuple(list(side.vocabulary) for side in (bitext.source, bitext.target))
    known_names = list(model.source), list(model.target)
    table = model.table
    counts = {
        (known_names[0][i], known_names[1][table.columns[k]]): float(model.counts.pairs[k])
        for i in range(table.shape[0])
        for k in range(table.offsets[i], table.offsets[i + 1])
    }
    known = BackgroundModel(model, model.counts, ADAPTATION_SETTINGS)
    indexed = IndexedBitext(bitext, threads)
    rows = indexed.pairs()
    ids = model.source.translate(bitext.source.vocabulary), model.target.translate(bitext.target.vocabulary)
    values, rests = counts_of_pairs(known, ids, rows, indexed.row_ranges, threads)
    met = [
        (names[0][i], names[1][o])
        for i in range(len(names[0]))
        for o in rows.columns[slice(*rows.offsets[i : i + 2])]
    ]
    assert values.tolist() == [np.float32(counts.get(pair, 0)) for pair in met]
    assert (values > 0.5).any()
    assert (np.array([pair not in counts for pair in met])).any()
    for side in (0, 1):
        rest = [sum(n for pair, n in counts.items() if pair[side] == x and pair not in met) for x in names[side]]
        assert np.allclose(rests[side], rest, atol=1e-3)
    for part, classes in zip(ADAPTATION_SETTINGS.affix_slices, known.classes, strict=True):
        for i in range(classes.table.shape[0]):
            columns, values = classes.table.row(i)
            affix = next(a for a, n in classes.ids[0].items() if n == i)
            for b, value in zip(columns, values, strict=True):
                other = next(a for a, n in classes.ids[1].items() if n == b)
                found = [
                    n for (x, y), n in counts.items() if (x[part], y[part]) == (affix, other) and n >= LEAST_COUNT
                ]
                assert value == pytest.approx(sum(found), rel=1e-5)


def test_pairs_that_the_model_was_fitted_on_count_once():
    text, _planted = inflected_pairs(1, 150)
    bitext = bitext_of(text)
    model = fit_joint(bitext)
    adapter, links = Adapter(model), float(model.words.counts.pairs.sum())

    def counted(pairs):
        return float(adapter.adapt(bitext, pairs).words.counts.pairs.sum())

    assert counted(None) == pytest.approx(2 * links, rel=0.01)
    assert counted(np.ones(150, bool)) == pytest.approx(links, rel=0.01)
    half = np.arange(150) % 2 == 0
    share = sum(len(x) for x, _ in text[::2]) / sum(len(x) for x, _ in text)
    assert counted(half) == pytest.approx((2 - share) * links, rel=0.01)
    assert counted(np.zeros(150, bool)) == counted(None)


@pytest.mark.usefixtures("small_windows")
def test_long_pairs_that_the_model_was_fitted_on_count_once_too():
    text, _planted = inflected_pairs(6, 150)
    long = [word for x, _ in text for word in x][:530], [word for _, y in text for word in y][:530]
    model = fit_joint(bitext_of(text))
    for pairs in ([long, *text[:5]], [([], []), long]):
        bitext = bitext_of(pairs)
        links = Adapter(model).adapt(bitext, np.ones(len(pairs), bool)).fitted_links
        assert len(links) == len(pairs)
