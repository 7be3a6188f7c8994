import tracemalloc
import weakref
from functools import partial

import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.classical.hmm import joint
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.link_probabilities import trust_in, trusted
from alignkit.classical.hmm.settings import FAST_SETTINGS, JOINT_SETTINGS
from alignkit.classical.hmm.views import View, ViewedText
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.kernels.link_probabilities import NO_LINK
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.scores import Scores


def recovered(links: Links, planted) -> float:
    gold = GoldLinks(Links.from_lists(planted), Links.from_lists(planted))
    return evaluate(gold, links).f1


def test_a_planted_lexicon_is_recovered():
    pairs, planted = permuted_copy(7)
    assert recovered(fit_joint(bitext_of(pairs)).fitted_links, planted) > 0.97


def test_a_planted_order_is_recovered_where_words_alone_say_too_little():
    """Words are few, so most occur several times in their sentence, and only the order tells the copies apart."""
    rng = np.random.default_rng(3)
    pairs, planted = [], []
    for _ in range(300):
        words = rng.integers(0, 6, 8).tolist()
        pairs.append(([f"s{w}" for w in words], [f"t{w}" for w in words]))
        planted.append([(j, j) for j in range(len(words))])
    bitext = bitext_of(pairs)
    assert recovered(fit_ibm1(bitext).links(bitext), planted) < 0.7
    assert recovered(fit_hmm(bitext).links(bitext), planted) > 0.95
    assert recovered(fit_joint(bitext).fitted_links, planted) > 0.95


def test_threads_change_no_bit_of_the_training_links():
    bitext = bitext_of(random_pairs(8, pairs=150))
    one = fit_joint(bitext, threads=1)
    for threads in (2, 3, 8):
        other = fit_joint(bitext, threads=threads)
        assert other.fitted_probabilities.values.tobytes() == one.fitted_probabilities.values.tobytes()


def test_empty_and_long_sentences():
    pairs = [([], ["x"]), (["c"], []), ([], []), (["a"] * 300, ["x"] * 280), (["a", "b"], ["x", "y"])]
    fitted, filled = (fit_joint(bitext_of(each)) for each in (pairs, pairs[3:]))
    assert [*map(len, fitted.fitted_links)] == [0, 0, 0, *map(len, filled.fitted_links)]
    assert fitted.fitted_probabilities.values.tobytes() == filled.fitted_probabilities.values.tobytes()
    assert np.isfinite(fitted.fitted_probabilities.values).all()
    assert fitted.fitted_probabilities.values.max() <= 1
    assert fit_joint(bitext_of([([], [])])).fitted_links.pairs.shape == (0, 2)
    assert len(fit_joint(bitext_of([])).fitted_links) == 0


def test_a_loaded_model_links_new_text_as_it_did_but_knows_no_text(tmp_path):
    text = random_pairs(11, pairs=120)
    fitted = fit_joint(bitext_of(text))
    fitted.save(tmp_path / "m.npz")
    loaded = load_joint(tmp_path / "m.npz")
    other = bitext_of(random_pairs(12, pairs=40))
    assert loaded.probabilities(other).values.tobytes() == fitted.probabilities(other).values.tobytes()
    assert loaded.links(other).pairs.tobytes() == fitted.links(other).pairs.tobytes()
    with pytest.raises(AlignkitError, match="loaded model"):
        _ = loaded.fitted_links


def test_links_of_a_hard_small_text_are_trusted_less(tmp_path, monkeypatch):
    hard, trust = bitext_of(random_pairs(5)), []
    monkeypatch.setattr(joint, "trust_in", lambda scores: trust.append(trust_in(scores)) or 1.0)
    plain = fit_joint(hard).without_attachment
    monkeypatch.setattr(joint, "trust_in", lambda scores: 0.1)
    found = fit_joint(hard).without_attachment
    trusted_less = trusted(plain.fitted_probabilities, 0.1).values
    assert found.fitted_probabilities.values == pytest.approx(trusted_less, abs=1e-6)
    assert trust[0] < 0.7
    for options in ({"quality": "fast"}, {"co_training": 0.0}):
        assert fit_joint(hard, **options).fitted_probabilities.values.max() > 0.9
    found.save(tmp_path / "m.npz")  # without attachment, with phrase edges
    others = [each.probabilities(hard).values.tobytes() for each in (plain, found, load_joint(tmp_path / "m.npz"))]
    assert len({*others}) == 1


def test_iterations_end_when_links_stand_still():
    bitext = bitext_of(permuted_copy(3)[0])
    counts = {}
    for tolerance in (0.0, 1e-3, 0.3):
        done = []
        report = partial(lambda steps, *step: steps.append(step[:2]), done)
        fit_joint(bitext, tolerance=tolerance, views=(View(),), progress=report)
        counts[tolerance] = len(done)
        assert done[-1] == (JOINT_SETTINGS.lexical_iterations + JOINT_SETTINGS.iterations,) * 2
    assert counts[0.0] == JOINT_SETTINGS.lexical_iterations + JOINT_SETTINGS.iterations
    assert counts[0.0] > counts[1e-3] > counts[0.3]


def test_a_small_text_is_never_hurried(monkeypatch):
    bitext = bitext_of(permuted_copy(3, pairs=40)[0])
    size = joint.matrix_elements(bitext)

    def steps(**options):
        done = []
        fit_joint(bitext, quality="fast", tolerance=0.0, progress=lambda *step: done.append(step), **options)
        return len(done)

    usual, fast = (each.lexical_iterations + each.iterations for each in (JOINT_SETTINGS, FAST_SETTINGS))
    assert steps() == usual
    assert steps(iterations=1) == JOINT_SETTINGS.lexical_iterations + 1
    monkeypatch.setattr(joint, "HURRIED_FROM", size + 1)
    assert steps() == usual
    monkeypatch.setattr(joint, "HURRIED_FROM", size)
    assert steps() == fast < usual


@pytest.mark.parametrize(("pairs", "tolerance"), [(19, 0.04), (20, 0.08)])
def test_small_texts_of_several_pairs_settle_sooner(pairs, tolerance):
    bitext = bitext_of(permuted_copy(1, pairs=pairs)[0])
    whole, sooner, later = (
        fit_joint(bitext, quality="fast", **options).fitted_probabilities.values.tobytes()
        for options in ({}, {"tolerance": 0.08}, {"tolerance": 0.04})
    )
    assert whole == {0.04: later, 0.08: sooner}[tolerance]
    assert sooner != later


def test_matrices_of_two_views_at_most_are_in_memory(monkeypatch):
    """Their mean, and one that is added to it; those that wait are packed."""
    text, size = bitext_of([(["a"] * 1000, ["b"] * 1000)]), 4 * 1000**2
    draw = np.random.default_rng(1)
    drawn = np.where(draw.random((4, size // 4)) < 0.95, NO_LINK, draw.normal(size=(4, size // 4)))
    drawn = drawn.astype(np.float32)

    def fit(viewed: ViewedText, *_, **__):
        n = next(numbers)
        return None, Scores(drawn[n].copy(), np.array([0, drawn.shape[1]]), viewed.bitext.shapes)

    class Fitted(Exception):  # noqa: N818
        """Ends the fit once the views have been pooled."""

    def stop(pooled, *_):
        raise Fitted(pooled)

    numbers = iter((1, 2, 3, 0))  # words come last
    monkeypatch.setattr(joint, "fit_view", fit)
    monkeypatch.setattr(joint, "into_probabilities", stop)
    tracemalloc.start()
    try:
        with pytest.raises(Fitted) as caught:
            fit_joint(text, views=(View(),) * 4, co_training=0.0, threads=1)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2.75 * size
    np.testing.assert_allclose(caught.value.args[0].values, drawn.mean(axis=0), atol=1e-5)


def test_of_the_rough_model_only_the_links_are_kept(monkeypatch):
    """While the views learn from each other: a model is as large as all word pairs of the text."""
    kept, models = joint.fit_view, []

    def fit(*arguments, **options):
        assert not models or models[0]() is None
        model, log_odds = kept(*arguments, **options)
        models.append(weakref.ref(model))
        return model, log_odds

    monkeypatch.setattr(joint, "fit_view", fit)
    fitted = fit_joint(bitext_of(permuted_copy(3, pairs=40)[0]), views=(View(), View(letters=1)))
    assert len(models) == 3
    assert fitted.models == (models[2](), models[1]())
