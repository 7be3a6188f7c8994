"""The likeliest path against enumeration of all paths."""

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.aligner.registry import load_aligner
from alignkit.classical.hmm.estimation import WIDTH
from alignkit.classical.hmm.inference import _emissions
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.errors import AlignkitError
from alignkit.kernels import forward_backward, viterbi


@pytest.mark.parametrize(("T", "L"), [(1, 1), (1, 4), (4, 1), (3, 3), (4, 3), (3, 4), (5, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_viterbi_is_enumeration(T, L, seed):
    rng = np.random.default_rng(100 * seed + 10 * T + L)
    emission, null = rng.random((T, L)).astype(np.float32), rng.random(T).astype(np.float32)
    jumps = rng.random(2 * WIDTH + 1).astype(np.float32) + np.float32(0.05)
    start = rng.random(WIDTH + 1).astype(np.float32) + np.float32(0.05)
    chances = {
        path: naive.path_probability(
            path,
            emission.tolist(),
            null.tolist(),
            lambda d: float(jumps[WIDTH + d]),
            lambda j: float(start[j]),
            0.3,
        )
        for path in naive.paths(T, L)
    }
    expected = [-1 if is_null else j for j, is_null in max(chances, key=chances.get)]
    stride = forward_backward.padded(L)
    e = np.zeros((T, stride), np.float32)
    e[:, :L] = emission
    wide = np.zeros(2 * L + 1, np.float32)
    forward_backward.widen(jumps, -L, L, wide)
    sums = np.concatenate([[0], np.cumsum(wide, dtype=np.float64)])
    rows, p0 = np.empty((5, stride), np.float32), np.float32(0.3)
    forward_backward.prepare_chain(L, (wide, wide[::-1].copy(), start, sums), p0, rows[3], rows[4])
    back, is_null, places = np.empty(T * L, np.int32), np.empty(T * L, np.bool_), np.empty(T, np.int32)
    viterbi.viterbi(T, L, e.ravel(), null, (wide, rows[3], rows[4], p0), rows, back, is_null, places)
    assert places.tolist() == expected


def test_links_of_a_fitted_model_are_its_likeliest_paths():
    bitext = bitext_of(random_pairs(2, pairs=40, longest=4))
    fitted = fit_hmm(bitext, HMMSettings(iterations=3), decode="viterbi")
    table = fitted._table(bitext)
    emissions = _emissions(bitext, table, fitted.chain, 0, 1)
    links, start, checked = fitted.links(bitext), 0, 0
    for m, (T, L) in enumerate(bitext.shapes.tolist()):
        matrix = emissions[start : start + T * L].reshape(T, L).tolist()
        start += T * L
        if T == 0 or L == 0:
            assert len(links[m]) == 0
            continue
        null = fitted.chain.null[bitext.target[m]].tolist()
        arguments = (matrix, null, lambda d: float(fitted.chain.jumps[WIDTH + d]))
        arguments += (lambda j: float(fitted.chain.start[j]), fitted.chain.null_probability)
        chances = [naive.path_probability(path, *arguments) for path in naive.paths(T, L)]
        linked = {t: s for s, t in links[m].tolist()}
        own = max(
            chance
            for path, chance in zip(naive.paths(T, L), chances, strict=True)
            if all(linked.get(t) == (None if is_null else j) for t, (j, is_null) in enumerate(path))
        )
        assert own == pytest.approx(max(chances), rel=1e-4)  # there may be ties
        checked += 1
    assert checked >= 20


@pytest.mark.parametrize("settings", [HMMSettings(), JOINT_SETTINGS])
def test_both_decodings_find_a_planted_lexicon(settings, tmp_path):
    text, planted = permuted_copy(7)
    bitext = bitext_of(text)
    model = fit_hmm(bitext, settings, decode="viterbi")
    links = model.links(bitext)
    found = {(m, s, t) for m in range(len(links)) for s, t in links[m].tolist()}
    truth = {(m, s, t) for m, pairs in enumerate(planted) for s, t in pairs}
    assert len(found & truth) > 0.9 * max(len(found), len(truth))
    model.save(tmp_path / "m.npz")
    again = load_aligner(tmp_path / "m.npz")
    assert again.decode == "viterbi"
    assert again.links(bitext).pairs.tobytes() == links.pairs.tobytes()


def test_threads_change_no_link():
    bitext = bitext_of(random_pairs(9, pairs=120))
    links = [fit_hmm(bitext, threads=n, decode="viterbi").links(bitext) for n in (1, 3)]
    assert links[0].pairs.tobytes() == links[1].pairs.tobytes()


def test_no_other_decoding():
    with pytest.raises(AlignkitError, match="viterbi"):
        fit_hmm(bitext_of([(["a"], ["x"])]), decode="beam")
