# ruff: noqa: RUF001
import random
from dataclasses import replace

import numpy as np
import pytest
from planted import emissions_of

from alignkit.classical.cooccurrence import IndexedBitext
from alignkit.classical.hmm.hmm import leave_one_out_share
from alignkit.classical.hmm.inference import inference_of
from alignkit.classical.hmm.joint import fit_joint, fit_view
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.spelling import (
    ALIKE,
    are_words,
    letters_of,
    plain_words,
    spelled,
    spelling_counts,
)
from alignkit.classical.hmm.views import View, ViewedText
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit_data import path


def common_subsequence(a, b):
    """The textbook recurrence."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
    return int(table[-1, -1])


def expected(a, b):
    if a == b:
        return 1.0
    if min(len(a), len(b)) < 3:
        return 0.0
    return max(0.0, (common_subsequence(a[:64], b[:64]) / min(max(len(a), len(b)), 64) - ALIKE) / (1 - ALIKE))


def counts_of(source, target, threads=1):
    """{(source word, target word): count}"""
    bitext = Bitext.from_sentences(source, target)
    rows = IndexedBitext(bitext, threads).pairs()
    letters = letters_of(bitext.source.vocabulary, bitext.target.vocabulary)
    places, counts = spelling_counts(letters, rows, threads)
    sources = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
    words = bitext.source.vocabulary, bitext.target.vocabulary
    pairs = zip(sources[places], rows.columns[places], counts, strict=True)
    return {(words[0][i], words[1][o]): float(count) for i, o, count in pairs}


def test_letters_that_an_alphabet_lacks_are_one_more():
    letters = spelled(["ca", "", "bdz"], np.array([97, 99, 100], np.uint32))
    assert letters.ids.tolist() == [1, 0, 3, 2, 3]
    assert letters.offsets.tolist() == [0, 2, 2, 5]


@pytest.mark.parametrize("threads", [1, 3])
def test_spelling_counts_are_those_of_the_longest_common_subsequence(threads):
    draw = random.Random(1)

    def word():
        return "".join(draw.choice("abcde") for _ in range(draw.choice([1, 2, 3, 4, 5, 6, 9, 63, 64])))

    source, target = ([[word() for _ in range(6)] for _ in range(30)] for _ in range(2))
    target[0][:3] = source[0][:3]
    found = counts_of(source, target, threads)
    pairs = {(a, b) for x, y in zip(source, target, strict=True) for a in x for b in y}
    assert {pair for pair in pairs if expected(*pair) > 1e-6} == set(found)
    for pair, count in found.items():
        assert count == pytest.approx(expected(*pair), abs=1e-5)
    assert len(found) > 20


def test_words_are_compared_without_accents_and_beyond_latin_letters():
    source = [["Élection", "1878", "Москва", "東京", ".", "on", "élan"]]
    target = [["Election", "1878", "москва", "東京", ".", "no", "nale"]]
    found = counts_of(source, target)
    for pair in zip(source[0][:5], target[0][:5], strict=True):
        assert found[pair] == pytest.approx(1)
    assert ("on", "no") not in found
    assert ("élan", "nale") not in found


@pytest.mark.parametrize(
    ("mark", "others"),
    [
        (",", ",،、，՝፣၊"),
        (".", ".。।۔։።༎။។｡．"),
        ("?", "?؟？՞"),
        ("!", "!！՜"),
        (";", ";；؛"),
        (":", ":："),
        ('"', '"“”„«»「」『』'),
        ("'", "'’‘"),
        ("-", "-–—"),
    ],
)
def test_marks_of_many_scripts_are_those_of_latin_script(mark, others):
    assert plain_words(list(others)) == [mark] * len(others)
    assert plain_words([f"a{other}b" for other in others]) == [f"a{mark}b"] * len(others)


def test_other_marks_and_letters_stay_different():
    marks = [*",.?!;:\"'-()[]{}/%&§·・《》", "a", "ー", "丶"]
    assert plain_words(marks) == marks


def test_marks_of_two_scripts_are_linked_where_only_their_meaning_tells_which():
    """Every sentence has both marks, in a new order on each side, and no word is there twice."""
    draw = random.Random(5)
    source, target, truth = [], [], []
    for m in range(12):
        order = draw.sample(range(6), 6)
        source.append([f"{1000 + 6 * m + k}" for k in range(4)] + [",", "."])
        target.append([[*source[m][:4], "、", "。"][k] for k in order])
        truth.append({(k, t) for t, k in enumerate(order) if k > 3})

    def right(**options):
        links = fit_joint(Bitext.from_sentences(source, target), **options).fitted_links
        return sum(len(truth[m] & set(map(tuple, links[m].tolist()))) for m in range(12))

    assert right() >= 22
    assert right(spelling=0.0) < 18


def test_identical_rare_words_are_linked():
    """Words that occur once, of which only the spelling tells which belong together."""
    draw = random.Random(3)
    common = [f"w{k}" for k in range(20)]
    source, target, truth = [], [], []
    for m in range(40):
        words = draw.sample(common, 4)
        x = [*words[:2], f"{1000 + 7 * m}", f"{5000 - 13 * m}", *words[2:]]
        order = draw.sample(range(6), 6)
        source.append(x)
        target.append([x[k].replace("w", "v") for k in order])
        truth.append({(k, t) for t, k in enumerate(order) if k in (2, 3)})
    words = (View(),)
    links = fit_joint(Bitext.from_sentences(source, target), views=words).fitted_links
    found = sum(len(truth[m] & set(map(tuple, links[m].tolist()))) for m in range(40))
    assert found >= 78
    without = fit_joint(Bitext.from_sentences(source, target), views=words, spelling=0.0).fitted_links
    assert found > sum(len(truth[m] & set(map(tuple, without[m].tolist()))) for m in range(40))


def test_a_model_links_words_that_it_has_never_seen_by_their_spelling():
    source = [["a", "b"], ["b", "Bernhard"], ["Bernhard", "a"]] * 10
    target = [["A1", "B1"], ["B1", "C1"], ["C1", "A1"]] * 10
    model = fit_joint(Bitext.from_sentences(source, target))
    new = Bitext.from_sentences([["1878", "a", "Katharina", "b"]], [["A1", "Catharina", "B1", "1878"]])
    assert model.links(new)[0].tolist() == [[0, 3], [1, 0], [2, 1], [3, 2]]
    emissions = emissions_of(inference_of(model.words), new)[:, 0].reshape(4, 4)
    alike = (8 / 9 - ALIKE) / (1 - ALIKE)
    assert emissions[1, 2] == pytest.approx(alike * emissions[3, 0], abs=1e-5)
    others = (model.score(new, "beta")[0] == 0) & (emissions < emissions[1, 2])
    assert np.count_nonzero(others) == 10
    assert emissions[others].max() == pytest.approx(1 / 3)  # of unknown words, all are equally likely
    known = Bitext.from_sentences([["bernhard"]], [["bernhard", "bernard", "xyz"]])
    same, near, far = emissions_of(inference_of(model.words), known)[:, 0].tolist()
    assert near == pytest.approx((7 / 8 - ALIKE) / (1 - ALIKE) * same)
    assert near > 10 * far
    without = fit_joint(Bitext.from_sentences(source, target), spelling=0.0)
    assert not without.words.forward.emission_alike.any()


def test_punctuation_is_what_has_neither_letter_nor_digit():
    tokens = [".", "a", "3", "...", "«", "l'", "%", "東", "²", "__", "\u0301"]
    assert are_words(Vocabulary.from_tokens(tokens)).tolist() == [any(c.isalnum() for c in t) for t in tokens]
    assert are_words(Vocabulary.from_tokens(["'s", "--"])).tolist() == [True, False]


def test_words_are_seldom_linked_to_punctuation():
    """A comma that always stands where one side has a word more, which only co-occurrence would link."""
    source = [["a", ",", "b"], ["a", ",", "c"], ["d", ",", "b"], ["d", ",", "c"]] * 5
    target = [["A", "hm", "B"], ["A", "hm", "C"], ["D", "hm", "B"], ["D", "hm", "C"]] * 5
    bitext = Bitext.from_sentences(source, target)
    words = ViewedText(View(), bitext)
    linked = fit_view(words, replace(JOINT_SETTINGS, punctuation=1.0), 1)[1]
    apart = fit_view(words, JOINT_SETTINGS, 1)[1]
    assert min(matrix[1, 1] for matrix in linked) > max(matrix[1, 1] for matrix in apart) + 3


def test_links_of_rare_punctuation_do_not_confirm_themselves():
    """Their evidence is weakened, and so must be the part of it that is their own; there is one apostrophe."""
    bitext = read_bitext(str(path("train.de")), str(path("train.en")))
    probabilities = fit_joint(bitext).fitted_probabilities
    places = [(m, bitext.target.words(m).index("'")) for m in range(len(bitext)) if "'" in bitext.target.words(m)]
    assert len(places) == 1
    assert probabilities[places[0][0]][places[0][1]].sum() < 1


def test_the_excluded_share_grows_with_repetition():
    def share(sentences):
        return leave_one_out_share(Bitext.from_sentences(sentences, sentences))

    new = [[f"{m}-{k}" for k in range(5)] for m in range(10)]
    assert share(new) == 0
    assert share(new * 100) == 0  # copies say nothing new
    repeated = [[f"{(m + k) % 20}" for k in range(5)] for m in range(20)]
    assert share(repeated) == pytest.approx(1 - (20 / 100 / 0.75) ** 4)
    lopsided = leave_one_out_share(Bitext.from_sentences(repeated, [["x"]] * 20))
    assert lopsided == pytest.approx(1 - (20 / 100 / 0.75) ** 4)
