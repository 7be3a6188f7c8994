"""Words of one letter-by-letter code in another alphabet, most of them seen once."""

import random
from dataclasses import replace

import numpy as np
import pytest

from alignkit.classical.hmm import inference, pseudo_counts, spelling
from alignkit.classical.hmm.inference import inference_of
from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.spelling import learned_edits, letters_of
from alignkit.classical.hmm.views import View
from alignkit.kernels.spelling import LONGEST_WORD, SpelledWords
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.text.bitext import Bitext

CODE = str.maketrans("abdegiklmnoprstuvz", "абдегиклмнопрстувз")
WORDS = (View(),)  # parts of names are like parts of other names: they are found without a code


def names(draw, count):
    """Names of two to four syllables."""
    return [
        "".join(draw.choice("bdgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4)))
        for _ in range(count)
    ]


def text(seed=1, pairs=60):
    """Pairs of six words in any order: four of a small lexicon without a code, two names, which are seen once."""
    draw = random.Random(seed)
    lexicon = list(
        zip(
            names(draw, 30),
            ["".join(reversed(name.translate(CODE))) + "ы" for name in names(draw, 30)],
            strict=True,
        )
    )
    source, target, truth, rare = [], [], [], []
    for _ in range(pairs):
        words = draw.sample(lexicon, 4) + [(name, name.translate(CODE)) for name in names(draw, 2)]
        orders = draw.sample(range(6), 6), draw.sample(range(6), 6)
        source.append([words[k][0] for k in orders[0]])
        target.append([words[k][1] for k in orders[1]])
        truth.append([(orders[0].index(k), orders[1].index(k)) for k in range(6)])
        rare.append([(orders[0].index(k), orders[1].index(k)) for k in (4, 5)])
    return Bitext.from_sentences(source, target), truth, rare


def found_of(links, rare):
    """The share of the names that are linked as they should."""
    return sum(link in set(map(tuple, links[m].tolist())) for m, pairs in enumerate(rare) for link in pairs) / (
        2 * len(rare)
    )


def test_the_code_is_learned_from_the_text(monkeypatch):
    bitext, truth, rare = text()
    gold = GoldLinks(*[Links.from_lists(truth)] * 2)
    with_it = fit_joint(bitext, views=WORDS).fitted_links
    monkeypatch.setattr(pseudo_counts, "MOST_PAIRS", 0)
    without = fit_joint(bitext, views=WORDS).fitted_links
    assert evaluate(gold, with_it).aer < evaluate(gold, without).aer
    assert found_of(with_it, rare) > 0.9 > found_of(without, rare)


def test_a_saved_model_knows_the_code_of_new_names(tmp_path):
    fit_joint(text(seed=1)[0], views=WORDS).save(tmp_path / "m.npz")
    model = load_joint(tmp_path / "m.npz")
    bitext, _, rare = text(seed=2)
    assert not any(word in model.source for word in bitext.source.vocabulary)
    without = replace(model, models=(replace(model.words),))
    without.words.__dict__["inference_with_counts"] = inference_of(without.words)
    assert found_of(model.links(bitext), rare) > 0.9 > 0.3 > found_of(without.links(bitext), rare)
    one, more = (replace(model, threads=n).probabilities(bitext).values.tobytes() for n in (1, 3))
    assert one == more


def test_words_without_a_code_are_none_the_worse():
    draw = random.Random(5)
    lexicon = list(zip(names(draw, 300), names(draw, 300), strict=True))
    sentences = [draw.sample(lexicon, 5) for _ in range(100)]
    bitext = Bitext.from_sentences(
        [[a for a, _ in each] for each in sentences], [[b for _, b in each] for each in sentences]
    )
    gold = GoldLinks(*[Links.from_lists([[(k, k) for k in range(5)]] * 100)] * 2)
    assert evaluate(gold, fit_joint(bitext).fitted_links).aer < 0.05


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_matter(threads):
    bitext, _, _ = text(seed=4, pairs=20)
    one, more = (fit_joint(bitext, threads=count).fitted_probabilities.values for count in (1, threads))
    assert one.tobytes() == more.tobytes()


def test_a_long_word_of_rare_letters_does_not_spoil_what_is_learned():
    """Its probability is too small for a number, as it may be in a large text."""
    words = [["abcd", "x" * LONGEST_WORD], ["efgh", "y" * LONGEST_WORD]]
    source, target, alphabet = letters_of(*words)
    chances = np.where(np.isin(alphabet, [ord("x"), ord("y")]), 1e-12, 0.1)
    places, links = np.arange(2), np.ones(2)
    spelled = SpelledWords(source, target, np.stack([chances, chances]))
    edits = learned_edits(places, places, links, (links, links), spelled)
    assert all(np.isfinite(each).all() for each in edits)
    assert edits.substituted[0, 4] > edits.substituted[0, 5]


def test_a_model_of_too_many_letters_compares_none(monkeypatch):
    model, (bitext, _, rare) = fit_joint(text(seed=1)[0], views=WORDS), text(seed=2)
    monkeypatch.setattr(inference, "MOST_LETTERS", 5)
    assert found_of(model.links(bitext), rare) < 0.5


@pytest.mark.parametrize("planted", [0.5, 0.9])
def test_the_share_of_transliterations_is_found(planted, monkeypatch):
    """Of words of any letters that are written by the code, the others being paired with words of their own."""
    draw, shares, kept = random.Random(3), [], spelling.expected_edits
    words, others = (["".join(draw.choices("abdegiklmnoprstuvz", k=6)) for _ in range(400)] for _ in range(2))
    coded = [word.translate(CODE) for word in (*words[: int(planted * 400)], *others[int(planted * 400) :])]
    source, target, alphabet = letters_of(words, coded)
    chances = np.full((2, len(alphabet)), 1 / 18)

    def spy(pairs, words, share, *rest):
        shares.append(share)
        return kept(pairs, words, share, *rest)

    monkeypatch.setattr(spelling, "expected_edits", spy)
    places, links = np.arange(400), np.ones(400)
    learned_edits(places, places, links, (links, links), SpelledWords(source, target, chances))
    assert shares[-1] == pytest.approx(planted, abs=0.05)
