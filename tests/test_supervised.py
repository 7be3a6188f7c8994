"""What is learned from gold links: a planted convention, and nothing where there is none."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of

from alignkit import align
from alignkit.aligner import load_aligner
from alignkit.classical.hmm.joint import JointHMM, fit_joint
from alignkit.errors import AlignkitError, InputError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.scores import Scores
from alignkit.supervised import AROUND, LEAST, LINKED, Cells, SupervisedAligner, _best_other, fit_supervised

pytest.importorskip("lightgbm", reason="LightGBM, of the extra gold, is not installed")
GOLD = 40


def text(seed=1, pairs=160):
    """Nouns and verbs in order, their translations the other way round, an article before each noun's translation.

    The annotator links the article to the noun, which is found without gold links, too, and leaves full stops out.
    """
    draw, sentences, links = random.Random(seed), [], []
    for _ in range(pairs):
        source, target, truth = [], [], []
        words = [(draw.choice("nv"), draw.randrange(25)) for _ in range(draw.randint(3, 6))]
        for s, (kind, number) in reversed(list(enumerate(words))):
            if kind == "n":
                truth.append((s, len(target)))
                target.append("the")
            truth.append((s, len(target)))
            target.append(f"{kind.upper()}{number}")
        source = [f"{kind}{number}" for kind, number in words]
        sentences.append(([*source, "."], [*target, "."]))
        links.append(truth)
    return bitext_of(sentences), Links.from_lists(links)


@pytest.fixture(scope="module")
def fitted():
    """(text, all its gold links, its model, the aligner that has seen the first of them)."""
    bitext, links = text()
    model = fit_joint(bitext, threads=1)
    return bitext, links, model, fit_supervised(model, bitext, gold_of(links.block(0, GOLD)), threads=1)


def gold_of(links):
    return GoldLinks(links, links)


def test_a_convention_is_learned(fitted):
    bitext, links, model, aligner = fitted
    rest = gold_of(links.block(GOLD, len(links)))
    before, after = (each.links(bitext).block(GOLD, len(links)) for each in (model, aligner))
    assert evaluate(rest, before).aer > 0.05
    assert evaluate(rest, after).aer < 0.02
    new, truth = text(seed=2)
    assert evaluate(gold_of(truth), aligner.links(new)).aer < 0.04


def test_a_saved_model_judges_only_the_pairs_with_gold_links(fitted, monkeypatch):
    """It would judge a block of a large text at a time, whose matrices do not fit into memory together."""
    bitext, links, model, _ = fitted
    other, gold = replace(model, fitted=None), gold_of(links.block(0, GOLD))
    counts, judge = [], JointHMM.probabilities
    monkeypatch.setattr(
        JointHMM, "probabilities", lambda self, text: counts.append(len(text)) or judge(self, text)
    )
    found = fit_supervised(other, bitext, gold, threads=1)
    assert isinstance(found, SupervisedAligner)
    assert set(counts) == {GOLD}


def test_what_is_saved_links_as_before(fitted, tmp_path):
    bitext, _, _, aligner = fitted
    aligner.save(tmp_path / "m.npz")
    loaded = load_aligner(tmp_path / "m.npz")
    assert isinstance(loaded, SupervisedAligner)
    new, _ = text(seed=3, pairs=30)
    assert loaded.score(new).values.tobytes() == aligner.score(new).values.tobytes()
    other = loaded.with_threads(2)
    assert other.threads == 2
    assert other.score(new).values.tobytes() == aligner.score(new).values.tobytes()
    assert loaded.score(new, "beta").values.tobytes() == aligner.inner.score(new, "beta").values.tobytes()
    assert loaded.links(bitext).pairs.tolist() == loaded.links_and_probabilities(bitext)[0].pairs.tolist()
    aligner.save(tmp_path / "again.npz")
    assert (tmp_path / "m.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_damaged_trees_are_an_error(fitted, tmp_path, monkeypatch):
    aligner = fitted[3]
    monkeypatch.setattr(type(aligner.trees), "checksum", "0" * 64)
    aligner.save(tmp_path / "m.npz")
    monkeypatch.undo()
    with pytest.raises(InputError, match="not those that were saved"):
        load_aligner(tmp_path / "m.npz")


def test_gold_links_of_no_use_leave_the_aligner_as_it_is():
    """Its own links, and links that were drawn by chance, which nothing predicts."""
    bitext, _ = text(pairs=60)
    model, draw = fit_joint(bitext, threads=1), random.Random(5)
    noise = [[(draw.randrange(L), draw.randrange(T)) for _ in range(4)] for T, L in bitext.shapes[:30].tolist()]
    for links in (model.fitted_links.block(0, 30), Links.from_lists(noise)):
        assert not isinstance(fit_supervised(model, bitext, gold_of(links), threads=1), SupervisedAligner)


def test_pairs_with_gold_links_keep_them_and_blank_ones_are_linked(caplog):
    bitext, links = text(pairs=60)
    gold = Links.from_lists(links[m].tolist() if m % 2 else [] for m in range(30))
    with caplog.at_level("INFO", "alignkit"):
        aligned = align(bitext, gold=gold_of(gold), threads=1)
    assert "AER in cross-validation: " in caplog.messages[-2]
    assert caplog.messages[-1].startswith("these pairs keep their gold links: judge the links by this AER, not")
    assert [aligned.links[m].tolist() for m in range(1, 30, 2)] == [
        sorted(links[m].tolist()) for m in range(1, 30, 2)
    ]
    assert all(len(found) for found in aligned.links)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"threshold": 0.5}, "gold links decide the threshold"), ({"gold": 4}, "too few to learn from; give 10")],
)
def test_what_it_refuses(options, message):
    bitext, links = text(pairs=20)
    gold = gold_of(links.block(0, options.pop("gold", 10)))
    with pytest.raises(AlignkitError, match=message):
        align(bitext, gold=gold, threads=1, **options)


def test_gold_links_as_strings_are_refused():
    with pytest.raises(AlignkitError, match=r"must be GoldLinks, as read_gold gives, or their file, not .*0-0"):
        align(text(pairs=20)[0], gold=["0-0"], threads=1)


def test_possible_links_are_all_that_a_loop_finds():
    rng = np.random.default_rng(1)
    bitext = bitext_of([(["a"] * L, ["b"] * T) for T, L in [(3, 4), (1, 1), (5, 2)]])
    alpha = Scores.from_matrices(rng.random((T, L)) ** 6 for T, L in bitext.shapes)
    expected = []
    for m, matrix in enumerate(alpha):
        T, L = matrix.shape
        for t in range(T):
            for s in range(L):
                around = [matrix[t + dt, s + ds] for dt, ds in AROUND if 0 <= t + dt < T and 0 <= s + ds < L]
                if matrix[t, s] >= np.float32(LEAST) or max(around, default=0) >= LINKED:
                    expected.append((m, t, s))
    cells = Cells(bitext, alpha)
    assert list(zip(cells.pair.tolist(), cells.t.tolist(), cells.s.tolist(), strict=True)) == expected
    assert 0 < len(expected) < len(alpha.values)


def test_rivals_are_the_best_other_links_of_a_word():
    rng = np.random.default_rng(2)
    values, token, other = rng.random(30).astype(np.float32), rng.integers(0, 9, 30), rng.integers(0, 20, 30)
    best, distance = _best_other(values, token, other)
    for k in range(30):
        rivals = [n for n in range(30) if token[n] == token[k] and n != k]
        wanted = max(rivals, key=lambda n: values[n], default=None)
        assert (best[k], distance[k]) == ((0, 0) if wanted is None else (values[wanted], other[wanted] - other[k]))
