"""Which words begin phrases and which end them, from where they stand beside punctuation."""

from dataclasses import replace

import numpy as np
import pytest

from alignkit import Bitext, load
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.link_probabilities import PhraseEdges

WORDS = ["the", "house", "of", "him", ",", "--"]


def drawn(pairs, seed):
    draw = np.random.default_rng(seed)

    def side():
        return [draw.choice(WORDS, draw.integers(0, 9)).tolist() for _ in range(pairs)]

    return side(), side()


def counted_slowly(lines):
    """Of each word (f + 50) / (f + e + 100), stretch by stretch."""
    firsts, lasts = dict.fromkeys(WORDS, 50), dict.fromkeys(WORDS, 50)
    for line in lines:
        for stretch in " ".join(line).replace(",", "--").split("--"):
            words = stretch.split()
            if words:
                firsts[words[0]] += 1
                lasts[words[-1]] += 1
    return {word: firsts[word] / (firsts[word] + lasts[word]) for word in WORDS}


def test_phrase_edges_are_counted_at_the_ends_of_stretches():
    lines = drawn(300, 1)
    bitext = Bitext.from_sentences(*lines)
    edges = PhraseEdges.of_text(bitext)
    for side, found, own in zip((bitext.source, bitext.target), (edges.source, edges.target), lines, strict=True):
        expected = counted_slowly(own)
        assert found == pytest.approx([expected[word] for word in side.vocabulary], abs=1e-6)


def test_the_first_and_the_last_word_of_a_phrase_cohere():
    bitext = Bitext.from_sentences([["a", "b"], ["b", "a", "b"]], [["x"], []])
    edges = PhraseEdges(np.array([0.9, 0.2], np.float32), np.array([0.5], np.float32))
    source, target = edges.cohesion(bitext)
    forward, backward = (1.8 * 1.6) ** 0.25, (0.4 * 0.2) ** 0.25
    assert source[[1, 3, 4]] == pytest.approx([forward, backward, forward], rel=1e-5)
    assert (len(source), target.tolist()) == (6, [1, 1])
    other = edges.of_words(np.array([1, -1]), np.array([-1]))
    assert other.source == pytest.approx([0.2, 0.5])
    assert other.target == pytest.approx([0.5])


def test_models_keep_the_phrase_edges_of_their_text(tmp_path):
    words = [f"noun{k}" for k in range(30)]
    draw = np.random.default_rng(2)
    nouns = [draw.choice(words, 3).tolist() for _ in range(200)]
    bitext = Bitext.from_sentences(
        [["the", *line[:2], ",", "the", line[2]] for line in nouns], [x[::-1] for x in nouns]
    )
    model, new = fit_joint(bitext, threads=1), bitext.block(0, 20)
    with pytest.raises(ValueError, match="between 0 and 1"):
        replace(model, phrase_edges=replace(model.phrase_edges, source=model.phrase_edges.source + 1))
    assert dict(zip(model.source, model.phrase_edges.source, strict=True))["the"] == pytest.approx(450 / 500)
    model.save(tmp_path / "m")
    loaded, plain = load(tmp_path / "m"), replace(model, phrase_edges=None, fitted=None)
    found = replace(model, fitted=None).probabilities(new).values
    assert loaded.probabilities(new).values.tobytes() == found.tobytes()
    assert np.abs(plain.probabilities(new).values - found).max() > 0.01
    adapted = Adapter(model).adapt(new)
    assert dict(zip(adapted.source, adapted.phrase_edges.source, strict=True))["the"] == pytest.approx(450 / 500)
