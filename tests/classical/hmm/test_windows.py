import numpy as np
import pytest
from planted import bitext_of, permuted_copy

from alignkit.classical.hmm import views
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint, fit_view
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import LARGEST_PAIR, View, ViewedText, in_windows, is_long, linked_in_blocks
from alignkit.kernels.link_probabilities import NO_LINK
from alignkit.links.from_scores import links_above
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext

RNG = np.random.default_rng(4)


def long_pair(length, words=400):
    """A copy in other words, with a word left out here and there; and its links."""
    source = [f"s{w}" for w in RNG.integers(0, words, length)]
    kept = np.flatnonzero(RNG.random(length) > 0.05)
    target = ["t" + source[j][1:] for j in kept]
    return (source, target), {(int(j), t) for t, j in enumerate(kept)}


def short_pairs(count, words=400):
    pairs = [[f"s{w}" for w in RNG.integers(0, words, 9)] for _ in range(count)]
    return [(source, ["t" + word[1:] for word in source]) for source in pairs]


def right(links, truth):
    return len(set(map(tuple, links.tolist())) & truth) / len(truth)


@pytest.mark.usefixtures("small_windows")
def test_a_long_pair_is_aligned_and_changes_no_other():
    long, truth = long_pair(290)
    others = short_pairs(300)
    bitext = bitext_of([*others[:100], long, *others[100:]])
    assert is_long(bitext).tolist() == [False] * 100 + [True] + [False] * 200
    alone, fitted = fit_joint(bitext_of(others)), fit_joint(bitext)
    links, probabilities = fitted.fitted_links_and_probabilities
    rest = np.delete(np.arange(301), 100)
    assert [links[m].tolist() for m in rest] == [alone.fitted_links[m].tolist() for m in range(300)]
    assert right(links[100], truth) > 0.95
    assert probabilities.shape == (len(links.pairs),)
    assert probabilities.min() >= np.float32(fitted.threshold)
    log_odds = fit_view(ViewedText(View(), bitext), JOINT_SETTINGS, 1)[1][100]
    assert log_odds[0, -1] == log_odds[-1, 0] == NO_LINK  # far from the diagonal
    assert log_odds.max() > 4
    dense = fitted.fitted_probabilities
    assert links_above(dense, fitted.threshold).to_pharaoh() == links.to_pharaoh()
    assert right(fitted.links(bitext)[100], truth) > 0.95
    assert np.isfinite(fitted.log_probabilities(bitext)).all()
    hmm = fit_hmm(bitext)
    assert right(hmm.links(bitext)[100], truth) > 0.9
    assert hmm.score(bitext)[100].shape == (len(long[1]), len(long[0]))


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("pairs", [1, 3])
def test_nothing_but_long_pairs(pairs):
    found = [long_pair(290) for _ in range(pairs)]
    fitted = fit_joint(bitext_of([pair for pair, _ in found]), views=(View(),))  # no part of a word means anything
    links = fitted.fitted_links
    assert len(links) == pairs
    assert min(right(links[m], truth) for m, (_, truth) in enumerate(found)) > 0.9
    assert fitted.fitted_probabilities.shapes.tolist() == [[len(y), len(x)] for (x, y), _ in found]


@pytest.mark.usefixtures("small_windows")
def test_very_uneven_sides():
    (source, _), _ = long_pair(30)
    pairs = [*short_pairs(50), (source * 150, ["t1", "t2"] * 8), (["s1", "s2"] * 8, ["t5"] * 4500)]
    links = fit_joint(bitext_of(pairs), views=(View(),)).fitted_links
    assert len(links) == 52


def test_windows_cover_every_target_token_once_and_the_diagonal():
    pairs = [long_pair(2300)[0], (["a"], ["b"]), ([], ["c"]), (["d"] * 9000, ["e"] * 500)]
    bitext = bitext_of(pairs)
    for overlap in (0.0, 1.0):
        windows = in_windows(bitext, overlap)
        targets = [[] for _ in pairs]
        for pair, (source, target), (T, L) in zip(
            windows.pairs, windows.starts, windows.bitext.shapes, strict=True
        ):
            assert 0 <= source <= source + L <= len(pairs[pair][0])
            targets[pair] += range(target, target + T)
            if T and pair in (0, 3):
                place = (target + T / 2) / len(pairs[pair][1]) * len(pairs[pair][0])
                assert source <= place <= source + L
        assert targets == [list(range(len(y))) for _, y in pairs]
        assert [windows.bitext.source.words(m) for m in (np.flatnonzero(windows.pairs == 1))] == [["a"]]
        assert (windows.bitext.shapes.astype(int).prod(axis=1) <= LARGEST_PAIR).all()


def test_links_found_in_blocks_are_those_of_the_whole(monkeypatch):
    pairs, _ = permuted_copy(5, pairs=60)
    bitext = bitext_of(pairs)
    model = fit_joint(bitext)
    monkeypatch.setattr(views, "BLOCK_ELEMENTS", 2000)
    many = Bitext(*(side.take(np.arange(60).repeat(12)) for side in (bitext.source, bitext.target)))
    calls = []

    def find(text):
        calls.append(len(text))
        links = model.links(text)
        return links, np.zeros(len(links.pairs))

    links, _ = linked_in_blocks(many, find)
    assert sum(calls) == len(many) > max(calls)
    once = model.links(bitext)
    expected = Links.from_lists([list(map(tuple, once[m // 12].tolist())) for m in range(len(many))])
    assert links.to_pharaoh() == expected.to_pharaoh()
