"""Likeness of tokens as evidence for links."""

import numpy as np
import pytest
from planted import bitext_of, expected_links, random_pairs

from alignkit.classical.hmm import views as windows
from alignkit.classical.hmm.hmm import HMMEstimation
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.pseudo_counts import LOG_LIKENESS, LOG_RATIO, PRIOR_LINKS, LevelRatios
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.views import View, ViewedText, trained_views
from alignkit.embeddings.levels import LEVELS, STEP, UNKNOWN
from alignkit.kernels.expected_links import set_links
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE


class Given:
    """Embeddings whose levels are given."""

    def __init__(self, levels):
        self.given = levels

    def levels(self, bitext, threads, progress=None):
        assert len(self.given) == (bitext.source.lengths * bitext.target.lengths).sum()
        return self.given


def test_ratios_are_shares_of_links_over_shares_of_all():
    """Two of the three target tokens of which something is known have a source token that is much alike."""
    levels, shapes = np.array([0, 0, 3, 9, 9, 4, UNKNOWN], np.uint8), np.array([[3, 2], [0, 4], [1, 1]])
    ratios = LevelRatios(levels, shapes, 0.9)
    first = np.exp(np.interp(STEP * np.arange(LEVELS), -LOG_LIKENESS, LOG_RATIO))
    assert ratios.ratios[:LEVELS] == pytest.approx(first**0.6, rel=1e-4)
    assert LevelRatios(levels, shapes, 2.0).ratios[:LEVELS] == pytest.approx(first, rel=1e-4)  # at most 1
    assert (LevelRatios(levels[6:], shapes[1:], 1.0).ratios == 1).all()  # nothing is known
    assert (np.diff(ratios.ratios[:LEVELS]) < 0).all()
    assert (np.diff(LOG_LIKENESS) < 0).all()  # between which it is interpolated
    assert ratios.ratios[UNKNOWN] == 1
    links = np.array([1.0, 0.5, 0.25, 0.0, 0.0, 0.0, 1.0], np.float32)
    elements = np.full(len(links), 7, np.uint32)
    set_links(elements, links)
    ratios.update(elements)
    shares = np.bincount(levels, minlength=LEVELS + 1)[:LEVELS] + 1.0
    shares /= shares.sum()
    linked = np.zeros(LEVELS)
    linked[[0, 3]] = 1.5, 0.25
    expected = (linked + ratios.prior) / (1.75 + PRIOR_LINKS) / shares
    assert ratios.ratios[:LEVELS] == pytest.approx(expected**0.6, rel=1e-4)
    assert ratios.prior.sum() == pytest.approx(PRIOR_LINKS)
    assert ratios.ratios[UNKNOWN] == 1


@pytest.mark.parametrize("forward", [True, False])
def test_a_ratio_multiplies_the_probability_of_its_link(forward):
    """The first E-step has a closed form: all positions and words are equally likely."""
    pairs = [(["a", "b", "c"], ["x", "y"]), (["b"], ["y"]), (["a", "c"], ["x", "y", "z", "z"])]
    bitext, rng = bitext_of(pairs), np.random.default_rng(1)
    levels = rng.choice([0, 4, 12, 31, UNKNOWN], 6 + 1 + 8).astype(np.uint8)
    settings = HMMSettings(null_probability=0.2, likeness=1.0)
    model = HMMEstimation(bitext, settings, FORWARD if forward else REVERSE, 1, levels=levels)
    model.initialise()
    model.e_step()
    found, place = expected_links(model).values, 0
    for source, target in pairs:
        size, shape = len(source) * len(target), (len(target), len(source))
        factors = LevelRatios(levels, bitext.shapes, 1.0).ratios[levels[place : place + size]].reshape(shape)
        weights = 0.8 * factors / shape[1 if forward else 0]
        wanted = weights / (0.2 + weights.sum(axis=1 if forward else 0, keepdims=True))
        assert found[place : place + size].reshape(shape) == pytest.approx(wanted, rel=3e-4)
        place += size


def test_unknown_levels_change_nothing():
    bitext = bitext_of(random_pairs(4, pairs=40))
    size = int((bitext.source.lengths * bitext.target.lengths).sum())
    plain = fit_joint(bitext, threads=1)
    unknown = fit_joint(bitext, threads=1, embeddings=Given(np.full(size, UNKNOWN, np.uint8)))
    assert unknown.fitted_probabilities.values.tobytes() == plain.fitted_probabilities.values.tobytes()


def unordered(seed=2, sentences=12):
    """Sentences of words that occur once, in any order, and levels that alone know the links."""
    rng, pairs, levels, wanted = np.random.default_rng(seed), [], [], []
    for m in range(sentences):
        size = int(rng.integers(2, 9))
        order = rng.permutation(size)
        pairs.append(([f"x{m}.{j}" for j in range(size)], [f"y{m}.{t}" for t in range(size)]))
        right = order[:, None] == np.arange(size)
        levels.append(np.where(right, rng.integers(0, 4, (size, size)), rng.integers(18, LEVELS, (size, size))))
        wanted.append({(int(order[t]), t) for t in range(size)})
    return bitext_of(pairs), Given(np.concatenate([each.reshape(-1) for each in levels]).astype(np.uint8)), wanted


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("views", [None, (View(), View(letters=4))])
def test_levels_decide_where_words_say_nothing(threads, views):
    bitext, given, wanted = unordered()
    fitted = fit_joint(bitext, views=views, threads=threads, embeddings=given, spelling=0.0)
    found = [set(map(tuple, pairs.tolist())) for pairs in fitted.fitted_links]
    assert found == wanted
    again = fit_joint(bitext, views=views, threads=1, embeddings=given, spelling=0.0)
    assert again.fitted_probabilities.values.tobytes() == fitted.fitted_probabilities.values.tobytes()


@pytest.mark.parametrize("longest", [1 << 22, 400])
def test_subwords_are_as_alike_as_their_words(longest, monkeypatch):
    monkeypatch.setattr(windows, "LARGEST_PAIR", longest)
    bitext, given, _ = unordered(sentences=30)
    view = trained_views((View(subwords=20),), bitext)[0]
    viewed = ViewedText(view, bitext)
    found, wanted, place = viewed.levels(given.given, threads=2), [], 0
    for m, (T, L) in enumerate(bitext.shapes):
        units = viewed.bitext.target.words(m), viewed.bitext.source.words(m)
        words = [np.cumsum([unit.startswith("\u2581") for unit in side]) - 1 for side in units]
        if len(units[0]) * len(units[1]) <= longest:
            wanted.append(given.given[place : place + T * L].reshape(T, L)[np.ix_(*words)].ravel())
        place += T * L
    assert 3 < len(wanted) < 30 if longest == 400 else len(wanted) == 30
    assert found.tolist() == np.concatenate(wanted).tolist()
    assert len(fit_joint(bitext, views=(view,), embeddings=given).fitted_links) == 30


def test_where_every_pair_of_a_view_is_long_nothing_is_known(monkeypatch):
    bitext, given, _ = unordered(sentences=3)
    monkeypatch.setattr(windows, "LARGEST_PAIR", 1)
    viewed = ViewedText(View(), bitext)
    found = viewed.levels(given.given, threads=1)
    assert (found == UNKNOWN).all()
    assert len(found) == windows.training_pairs(bitext)[0].shapes.prod(axis=1).sum()
