"""Likeness of tokens as evidence for links."""

import numpy as np
import pytest
from planted import bitext_of, expected_links, random_pairs

from alignkit.classical.hmm import joint
from alignkit.classical.hmm import views as windows
from alignkit.classical.hmm.hmm import HMMEstimation
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.pseudo_counts import LOG_LIKENESS, LOG_RATIO, PRIOR_LINKS, LevelRatios
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.views import View, ViewedText, trained_views
from alignkit.embeddings.levels import LEVELS, OPINIONS, STEP, UNKNOWN
from alignkit.kernels.expected_links import set_links
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE
from alignkit.scores import flat_offsets


class Given:
    """Embeddings whose levels are given."""

    def __init__(self, levels):
        self.given = levels

    def levels(self, bitext, threads, progress=None):
        assert len(self.given) == (bitext.source.lengths * bitext.target.lengths).sum()
        return self.given


@pytest.mark.parametrize("low", [0, OPINIONS])
def test_ratios_are_shares_of_links_over_shares_of_all(low):
    """Two of the three target tokens of which something is known have a source token that is much alike."""
    levels, shapes = np.array([0, 0, 3, 9, 9, 4, UNKNOWN], np.uint8), np.array([[3, 2], [0, 4], [1, 1]])
    levels = np.where(levels == UNKNOWN, levels, levels + np.uint8(low))
    part, other = slice(low, low + LEVELS), slice(OPINIONS - low, OPINIONS - low + LEVELS)

    def of(levels, shapes, exponent):
        return LevelRatios(levels, shapes, (0.0, exponent) if low else (exponent, 0.0))

    ratios = of(levels, shapes, 0.9)
    first = np.exp(np.interp(STEP * np.arange(LEVELS), -LOG_LIKENESS, LOG_RATIO))
    found = ratios.likeness.ratios
    assert found[part] == pytest.approx(first**0.6, rel=1e-4)
    assert of(levels, shapes, 2.0).likeness.ratios[part] == pytest.approx(first, rel=1e-4)  # at most 1
    assert (of(levels[6:], shapes[1:], 1.0).likeness.ratios == 1).all()  # nothing is known
    assert (np.diff(found[part]) < 0).all()
    assert (np.diff(LOG_LIKENESS) < 0).all()  # between which it is interpolated
    links = np.array([1.0, 0.5, 0.25, 0.0, 0.0, 0.0, 1.0], np.float32)
    elements = np.full(len(links), 7, np.uint32)
    set_links(elements, links)
    ratios.update(elements)
    shares = np.bincount(levels[:6] - low, minlength=LEVELS) + 1.0
    shares /= shares.sum()
    linked = np.zeros(LEVELS)
    linked[[0, 3]] = 1.5, 0.25
    prior = PRIOR_LINKS * shares * first / (shares * first).sum()
    expected = (linked + prior) / (1.75 + PRIOR_LINKS) / shares
    assert found[part] == pytest.approx(expected**0.6, rel=1e-4)
    assert (found[other] == 1).all()
    assert found[UNKNOWN] == 1


def test_likeness_and_opinions_of_other_pairs_are_estimated_apart():
    levels, shapes = np.array([0, 9, 12, 2, 30, 1], np.uint8), np.array([[1, 2], [2, 2]])
    both = np.concatenate([levels, levels[::-1] + np.uint8(OPINIONS)]), np.concatenate([shapes, shapes[::-1]])
    links = np.array([0.75, 0.0, 0.125, 0.5, 0.0, 1.0], np.float32)

    def ratios(levels, shapes, links, *exponents):
        found, elements = LevelRatios(levels, shapes, exponents), np.full(len(links), 7, np.uint32)
        set_links(elements, links)
        found.update(elements)
        return found.likeness.ratios

    found = ratios(*both, np.concatenate([links, links[::-1]]), 0.9, 0.5)
    assert found[:OPINIONS] == pytest.approx(ratios(levels, shapes, links, 0.9, 0.0)[:OPINIONS])
    assert found[OPINIONS:] == pytest.approx(ratios(levels, shapes, links, 0.5, 0.0)[:LEVELS])


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
        factors = (
            LevelRatios(levels, bitext.shapes, (1.0, 0.0))
            .likeness.ratios[levels[place : place + size]]
            .reshape(shape)
        )
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


def test_views_tell_each_other_of_pairs_that_embeddings_have_not_read(monkeypatch):
    """Of those, the last fit of words hears what letters say; of others, what the embeddings say."""
    bitext, given, wanted = unordered(sentences=40)
    read = np.arange(40) < 25
    read = np.repeat(read, bitext.shapes.prod(axis=1))
    given.given[~read] = UNKNOWN
    given.given[flat_offsets(bitext.shapes)[:25]] = UNKNOWN  # of one element: the pair has been read
    heard = []
    fit_view = joint.fit_view
    monkeypatch.setattr(
        joint, "fit_view", lambda *of, levels, **more: heard.append(levels) or fit_view(*of, levels=levels, **more)
    )
    fitted = fit_joint(
        bitext, views=(View(), View(letters=4)), embeddings=given, threads=1, spelling=0.0, co_training=0.6
    )
    rough, letters, words = heard
    assert (rough == given.given).all()
    for levels in (letters, words):
        assert (levels[read] == given.given[read]).all()
        assert (levels[~read] >= OPINIONS).all()
    found = [set(map(tuple, pairs.tolist())) for pairs in fitted.fitted_links]
    assert found[:25] == wanted[:25]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_long_pair_beside_blank_ones(monkeypatch, is_known):
    """Windows of the long pair are fitted on, and nothing else."""
    monkeypatch.setattr(windows, "LARGEST_PAIR", 4)
    monkeypatch.setattr(windows, "WINDOW", 1)
    bitext = bitext_of([([], ["w"]), (["a", "b", "c"], ["x", "y", "z"]), (["d"], []), ([], [])])

    class All:
        def levels(self, text, threads, progress=None):
            return np.full(flat_offsets(text.shapes)[-1], 3, np.uint8)

    found = fit_joint(bitext, threads=1, embeddings=All() if is_known else None)
    assert [*found.source] == ["a", "b", "c"]
    assert len(found.fitted_links) == 4


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
