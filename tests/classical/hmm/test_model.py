from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.classical.hmm.estimation import Estimation
from alignkit.classical.hmm.inference import Chain
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate


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


def test_the_reverse_direction_is_the_forward_one_of_the_reversed_text():
    bitext = bitext_of(random_pairs(9, pairs=100))
    settings = HMMSettings(lexical_iterations=2, iterations=2)
    forward, reverse = (
        Estimation(text, settings, shares, 1)
        for text, shares in ((bitext.reversed, (1.0, 0.0)), (bitext, (0.0, 1.0)))
    )
    for step in range(4):
        for estimation in (forward, reverse):
            if step == 2:
                estimation.start_chain()
            estimation.expect()
            estimation.maximise()
    for m in range(len(bitext)):
        place = slice(forward.offsets[m], forward.offsets[m + 1])
        T, L = bitext.shapes[m]
        assert np.allclose(forward.links[place].reshape(L, T), reverse.links[place].reshape(T, L).T, atol=1e-4)


def test_a_higher_threshold_gives_a_subset():
    fitted = fit_joint(bitext_of(random_pairs(10, pairs=100)))
    few, many = (links_above(fitted.fitted_probabilities, threshold) for threshold in (0.7, 0.2))
    assert 0 < len(few.pairs) < len(many.pairs)
    for m in range(len(few)):
        assert set(map(tuple, few[m].tolist())) <= set(map(tuple, many[m].tolist()))


def test_empty_and_long_sentences():
    pairs = [([], ["x"]), (["a"], []), ([], []), (["a"] * 300, ["x"] * 280), (["a", "b"], ["x", "y"])]
    fitted = fit_joint(bitext_of(pairs))
    assert len(fitted.fitted_links) == 5
    assert np.isfinite(fitted.fitted_probabilities.values).all()
    assert fitted.fitted_probabilities.values.max() <= 1
    assert fit_joint(bitext_of([([], [])])).fitted_links.pairs.shape == (0, 2)
    assert len(fit_joint(bitext_of([])).fitted_links) == 0


def test_a_threshold_outside_its_range_is_an_error():
    with pytest.raises(AlignkitError, match="threshold"):
        fit_joint(bitext_of([(["a"], ["x"])]), threshold=1.5)


def test_a_chain_with_impossible_numbers_is_an_error():
    bitext = bitext_of(random_pairs(2))
    estimation = Estimation(bitext, HMMSettings(), (0.5, 0.5), 1)
    estimation.start_chain()
    estimation.expect()
    estimation.maximise()
    chain = Chain.of(estimation, 0)
    arrays = {name: getattr(chain, name) for name in ("values", "floor", "null", "ratios", "jumps", "start")}
    for name, bad in (("jumps", chain.jumps * 0), ("null", chain.null * np.nan), ("ratios", chain.ratios[1:])):
        with pytest.raises(ValueError):
            Chain(**{**arrays, name: bad}, null_probability=0.2)
    with pytest.raises(ValueError):
        Chain(**arrays, null_probability=1.0)


def test_iterations_end_when_links_stand_still():
    bitext = bitext_of(permuted_copy(3)[0])
    counts = {}
    for tolerance in (0.0, 1e-3, 0.3):
        done = []
        settings = replace(JOINT_SETTINGS, tolerance=tolerance)
        fit_joint(bitext, settings, progress=lambda *step, done=done: done.append(step[:2]))
        counts[tolerance] = len(done)
        assert done[-1] == (13, 13)
    assert counts[0.0] == 13 > counts[1e-3] > counts[0.3]
