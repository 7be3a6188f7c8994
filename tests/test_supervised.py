"""What is learned from gold links: a planted convention, and nothing where there is none."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of
from scipy.stats import ttest_1samp

from alignkit import align
from alignkit.aligner import load_aligner
from alignkit.classical.hmm.joint import JointHMM, fit_joint
from alignkit.errors import AlignkitError, InputError
from alignkit.links.from_scores import are_linked, links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import count_links, evaluate
from alignkit.scores import Scores
from alignkit.supervised import (
    Cells,
    Frequencies,
    PairErrors,
    SupervisedAligner,
    _predicted,
    _trained,
    fit_supervised,
    grow_trees,
    scores_with_gold,
    with_gold,
)

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM, of the extra gold, is not installed")
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
    gold = GoldLinks(Links.from_lists(links[m][1:].tolist() for m in range(GOLD)), links.block(0, GOLD))
    other = replace(model, fitted=None)
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
    """Its own links, and links that were drawn by chance, which nothing predicts; others are linked as usual."""
    bitext, _ = text(pairs=40)
    model, draw = fit_joint(bitext, threads=1), random.Random(5)
    noise = [[(draw.randrange(L), draw.randrange(T)) for _ in range(4)] for T, L in bitext.shapes[:20].tolist()]
    for links in (model.fitted_links.block(0, 20), Links.from_lists(noise)):
        for given in ({}, {"model": model}):
            aligned = align(bitext, gold=gold_of(links), threads=1, **given)
            assert not isinstance(aligned.aligner, SupervisedAligner)
            assert aligned.links.block(0, 20) == links
            assert aligned.links.block(20, 40) == model.fitted_links.block(20, 40)
    saved = replace(model, fitted=None)
    aligned = align(bitext, gold=gold_of(links), threads=1, model=saved)
    assert aligned.links.block(20, 40) == saved.links(bitext).block(20, 40) != model.fitted_links.block(20, 40)


def test_pairs_with_gold_links_keep_them_and_blank_ones_are_linked(caplog):
    bitext, links = text(pairs=60)
    rows = [links[m].tolist() if m % 2 else [] for m in range(30)]
    rows[3] = rows[3][:1]  # an annotator who sees less
    gold = Links.from_lists(rows)
    with caplog.at_level("INFO", "alignkit"):
        aligned = align(bitext, gold=gold_of(gold), threads=1)
    assert "AER in cross-validation: " in caplog.messages[-2]
    assert "threshold" not in caplog.messages[-2]
    assert caplog.messages[-1].startswith("these pairs keep their gold links: judge the links by this AER, not")
    assert [sorted(aligned.links[m].tolist()) for m in range(1, 30, 2)] == [sorted(own) for own in rows[1::2]]
    assert all(len(found) for found in aligned.links)
    assert links_above(aligned.score(), 0.5) == aligned.links  # what is saved is what is linked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.5}, "gold links decide the threshold"),
        ({"gold": 4}, "^gold links of 4 pairs are too few to learn from; give 10"),
        ({"sure": 9}, "^sure gold links of 9 pairs are too few to learn from; give 10"),
        ({"pairs": 10}, "gold links: has links for 11 pairs, the text has 10"),
    ],
)
def test_what_it_refuses(options, message):
    bitext, links = text(pairs=20)
    gold = gold_of(links.block(0, options.pop("gold", 11)))
    if "sure" in options:
        without = [[]] * (11 - options["sure"])
        gold = replace(gold, sure=Links.from_lists([*links.block(0, options.pop("sure")), *without]))
    with pytest.raises(AlignkitError, match=message):
        align(bitext.block(0, options.pop("pairs", 20)), gold=gold, threads=1, **options)


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
                around = matrix[max(t - 1, 0) : t + 2, max(s - 1, 0) : s + 2]
                if matrix[t, s] >= np.float32(0.01) or around.max() >= 0.5:
                    expected.append((m, t, s))
    cells = Cells(bitext, alpha)
    assert list(zip(cells.pair.tolist(), cells.t.tolist(), cells.s.tolist(), strict=True)) == expected
    assert 0 < len(expected) < len(alpha.values)


def naive_features(cells, words, judged):
    """The features of each possible link, one after the other."""
    near = [(t, s) for t in (-1, 0, 1) for s in (-1, 0, 1) if t or s] + [(0, -2), (0, 2), (-2, 0), (2, 0)]
    places = list(zip(cells.pair.tolist(), cells.t.tolist(), cells.s.tolist(), strict=True))
    ranked = []
    for corpus in words:
        counts = Counter(word.lower() for m in range(len(corpus)) for word in corpus.words(m))
        order = sorted((word for word in counts if counts[word] > 1), key=lambda word: (-counts[word], word))
        ranked.append(
            ({word: min(n, 60) for n, word in enumerate(order)}, {w: counts[w] for w in order}, len(order))
        )

    def log_odds(p):
        return np.log(max(p, 1e-5) / max(1 - p, 1e-5))

    rows = []
    for m, t, s in places:
        x, y = (side.words(m) for side in (cells.bitext.source, cells.bitext.target))
        row = [own.get(word.lower(), min(n, 60)) for (own, _, n), word in zip(ranked, (x[s], y[t]), strict=True)]
        row += [s / len(x) - t / len(y), np.log(len(y)), len(y) / len(x), x[s].lower() == y[t].lower()]
        for (_, often, _), sentence, k in zip(ranked, (x, y), (s, t), strict=True):
            logs = [np.log(often.get(word.lower(), 1)) for word in sentence]
            row += [logs[k], len(sentence[k]), not any(letter.isalnum() for letter in sentence[k])]
            row += [logs[j] if 0 <= j < len(logs) else -1 for j in (k - 1, k + 1)]
        for matrices in judged:
            matrix = matrices[m]
            own = {(j, i): matrix[j, i] for n, j, i in places if n == m}
            around = [(t + dt, s + ds) for dt, ds in near]
            row += [log_odds(matrix[t, s])]
            row += [log_odds(matrix[j, i] if 0 <= j < len(y) and 0 <= i < len(x) else 0) for j, i in around]
            for end, k, size in ((1, s, len(x)), (0, t, len(y))):
                others = {place[1 - end]: p for place, p in own.items() if place[end] == k and place != (t, s)}
                best = max(others, key=others.get, default=None)
                sums = [sum(p for place, p in own.items() if place[end] == j) for j in (k, k - 1, k + 1)]
                row += [log_odds(others.get(best, 0)), 0 if best is None else best - (t, s)[1 - end], sums[0]]
                row += [total if 0 <= j < size else -1 for j, total in zip((k - 1, k + 1), sums[1:], strict=True)]
        rows.append(row)
    return np.array(rows, float)


def test_features_are_those_of_a_naive_reference():
    draw = np.random.default_rng(2)
    names = ["ß", "ss", "W1", "w2!", "?", *(f"w{n}" for n in range(150))]
    sides = [
        [[names[int(155 * p**power)] for p in draw.random(n)] for n in draw.integers(1, 7, 140)]
        for power in (2, 8)
    ]
    whole = bitext_of(list(zip(*sides, strict=True)))
    part = whole.take(np.arange(0, 140, 9))
    alpha, more = (Scores.from_matrices(draw.random((T, L)) ** 6 for T, L in part.shapes) for _ in range(2))
    cells = Cells(part, alpha)
    words = Frequencies.of(whole.source), Frequencies.of(whole.target)
    assert len(words[0].counts) > 60 > len(words[1].counts)
    found = cells.features(words, [alpha, more])
    expected = naive_features(cells, (whole.source, whole.target), [alpha, more])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert any(found[:, 5])


def test_trees_learn_from_other_folds_and_not_from_possible_links(monkeypatch):
    """Each stand-in for trees is known by its number, and says that number of each link that it judges."""
    grown = []

    def grow(features, sure):
        grown.append((len(features), int(sure.sum()), features.shape[1]))
        return str(len(grown))

    monkeypatch.setattr("alignkit.supervised._trained", grow)
    monkeypatch.setattr(
        "alignkit.supervised._predicted", lambda trees, features: np.full(len(features), int(trees))
    )
    bitext = bitext_of([(["a"], ["x", "y"]), (["a", "b"], ["x"]), (["b"], ["y"])])
    cells = Cells(bitext, Scores.from_matrices(np.ones(shape, np.float32) for shape in bitext.shapes))
    gold = GoldLinks(Links.from_strings(["0-0", "1-0", ""]), Links.from_strings(["0-0 0-1", "1-0", "0-0"]))
    folds, words = np.array([0, 1, 0]), (Frequencies.of(bitext.source), Frequencies.of(bitext.target))
    trees, held_out = grow_trees(cells, gold, folds, words)
    # Of the 5 possible links 2 are sure and 2 only possible: 1 of fold 0 and 2 of fold 1 are known.
    assert [own[:2] for own in grown] == [(2, 1), (1, 1), (3, 2)] * 2
    assert len({own[2] for own in grown[:3]}) == len({own[2] for own in grown[3:]}) == 1
    assert grown[3][2] > grown[0][2]
    assert trees.passes == ("3", "6")
    assert held_out.values.tolist() == [4, 4, 5, 5, 4]


def test_trees_are_small_and_each_of_a_part_of_the_links():
    """By what LightGBM says of the trees that it has grown for noisy links."""
    draw = np.random.default_rng(5)
    features = draw.random((800, 6)).astype(np.float32)
    features[:, :2] = draw.integers(0, 5, (800, 2))
    grown = _trained(features, features[:, 2] + draw.random(800) > 1)
    said = dict(re.findall(r"^\[(\w+): (.*)\]$", grown, re.MULTILINE))
    wanted = {
        **{"objective": "binary", "num_leaves": "16", "learning_rate": "0.075", "num_iterations": "100"},
        **{"min_data_in_leaf": "20", "min_data_per_group": "20", "feature_fraction": "0.5", "lambda_l2": "5"},
        **{"bagging_fraction": "0.7", "bagging_freq": "1", "seed": "1", "num_threads": "1"},
        **{"deterministic": "1", "force_row_wise": "1", "categorical_feature": "0,1", "verbosity": "-1"},
    }
    assert {name: said[name] for name in wanted} == wanted
    assert _predicted(grown, features) == pytest.approx(lightgbm.Booster(model_str=grown).predict(features), abs=0)
    assert len(_predicted(grown, features[:0])) == 0


def test_a_classifier_may_be_worse_by_half_a_standard_error():
    draw = np.random.default_rng(3)
    for _ in range(300):
        n = int(draw.integers(2, 30))
        other, own = (PairErrors(draw.integers(0, 9, n), draw.integers(9, 20, n)) for _ in range(2))
        rate = other.errors.sum() / other.sizes.sum()
        gains = (other.errors - rate * other.sizes) - (own.errors - rate * own.sizes)
        assert own.may_replace(other) == (ttest_1samp(gains, 0).statistic > -0.5)
    assert not own.may_replace(own)
    sure = Links.from_strings(["0-0 1-1", "2-2"])
    gold, links = (
        GoldLinks(sure, Links.from_strings(["0-0 1-1 1-0", "2-2"])),
        Links.from_strings(["1-0 0-1", "2-2"]),
    )
    assert PairErrors.of(count_links(gold, links)).aer == pytest.approx(evaluate(gold, links).aer)


def test_links_are_judged_by_trees_and_by_those_that_the_aligner_makes(fitted):
    """Of new text, and of that which it was fitted on: the trees see no attachment, its own links have it."""
    bitext, _, model, aligner = fitted
    model, new = model.with_threshold(0.8), text(seed=4, pairs=20)[0]
    new = bitext_of([(new.source.words(m), [*map(str.upper, new.target.words(m))]) for m in range(20)])
    aligner, plain = replace(aligner, inner=model), model.without_attachment
    assert (aligner.weight, aligner.threshold) == (GOLD / (GOLD + 7), 0.5)
    of_new = plain.probabilities(new)
    assert model.with_attachment(new, of_new) == model.probabilities(new)
    for given, alpha, own in (
        (new, of_new, model.links(new)),
        (bitext, plain.fitted_probabilities, model.fitted_links),
    ):
        assert own != links_above(alpha, 0.8)
        by_trees = aligner.trees.probabilities(Cells(given, alpha)).values
        expected = aligner.weight * by_trees + (1 - aligner.weight) * are_linked(own, given.shapes)
        assert aligner.score(given).values == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("kept", "lost", "added", "is_better", "is_told"),
    [
        (6, 0, 3, True, False),
        (2, 0, 3, True, False),
        (2, 3, 0, False, False),
        (3, 0, 0, True, False),
        (2, 0, 0, False, True),
    ],
)
def test_what_is_chosen_by_the_links_that_both_make(
    kept, lost, added, is_better, is_told, fitted, monkeypatch, caplog
):
    """Gold is the diagonal; the aligner has ``kept`` and ``lost`` of it. Ten gold pairs weigh 10 / 17: its links
    stay if the planted trees give them .3, not .1, and others are added if they give them .9, not .6."""
    names, right = np.arange(10), kept + lost
    trees = np.diag(np.repeat([0.3, 0.1, 0.9, 0], [kept, lost, added, 10 - right - added]))
    trees[names, (names + 1) % 10], trees[names, (names + 2) % 10] = 0.1, 0.6
    own = Links.from_lists([[((t + (t >= right)) % 10, t) for t in range(10)]] * 10)
    judged = "alignkit.supervised._judged"
    monkeypatch.setattr(judged, lambda _, given: (Scores.zeros(given.shapes), own.block(0, len(given))))
    monkeypatch.setattr("alignkit.supervised.grow_trees", lambda *_: (None, Scores.from_matrices([trees] * 10)))
    gold = Links.from_lists([[], [], *[[(n, n) for n in range(10)]] * 10])
    words = [f"w{n}" for n in range(10)]
    with caplog.at_level("INFO", "alignkit"):
        found = fit_supervised(fitted[2], bitext_of([(words, words)] * 14), gold_of(gold))
    before, after = 100 - 10 * right, 100 - 200 * (kept + added) / (kept + added + 10)
    chosen = "a classifier" if is_better else "the aligner's links"
    chosen += " (the difference may be chance)" if is_better and after > before else ""
    told = f"{before:.1f} with the aligner's links, {after:.1f} with a classifier; chosen: {chosen}"
    assert caplog.messages[0] == f"10 gold pairs; AER in cross-validation: {told}"
    assert (found is fitted[2]) != is_better
    assert [each.startswith("few gold links are as found") for each in caplog.messages[1:]] == [True] * is_told


def test_annotated_pairs_have_their_sure_links_and_the_possible_ones_that_were_found():
    gold = GoldLinks(*(Links.from_strings(own) for own in (["0-0", "", ""], ["0-0 0-1 1-1", "0-0", ""])))
    links = Links.from_strings(["0-0 1-0 1-1", "0-0 1-1", "1-0", "0-0"])
    found, probabilities = with_gold(links, np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]), gold)
    assert found.to_strings() == ["0-0 1-1", "0-0", "1-0", "0-0"]
    assert probabilities.tolist() == [1.0, 0.7, 0.6, 0.4, 0.3]
    alpha = Scores.from_matrices(
        np.linspace(0.1, 0.9, T * L).reshape(T, L) for T, L in [(2, 2), (1, 2), (1, 2), (1, 1)]
    )
    scores = scores_with_gold(alpha, gold)
    assert scores[0].tolist() == [[1, 0], [alpha[0][1, 0], alpha[0][1, 1]]]
    assert scores[1].tolist() == [[alpha[1][0, 0], 0]]
    assert (scores[2] == alpha[2]).all()
    assert (scores[3] == alpha[3]).all()
    assert alpha[0][0, 0] < 1  # it is not changed
