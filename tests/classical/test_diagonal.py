import naive
import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.diagonal import KIND, VERSION, Diagonal, PositionDistribution, fit_diagonal, load_diagonal
from alignkit.errors import AlignkitError, InputError
from alignkit.support.files import load_arrays, save_arrays
from alignkit.text.bitext import Bitext

OPTIONS = [
    {"null_probability": 0.08, "dirichlet": 0.01, "tension": 4.0, "optimize_tension": True},
    {"null_probability": 0.3, "dirichlet": None, "tension": 1.0, "optimize_tension": True},
    {"null_probability": 0.08, "dirichlet": 0.5, "tension": 9.0, "optimize_tension": False},
    {"null": False, "dirichlet": None, "tension": 4.0, "optimize_tension": True},
]
WITH_OPTIONS = pytest.mark.parametrize("options", OPTIONS)


def reference(pairs, iterations, options):
    types = len({o for _, y in pairs for o in y})
    probability = 0.0 if options.get("null") is False else options["null_probability"]
    arguments = (options["dirichlet"], options["tension"], options["optimize_tension"])
    return (*naive.diagonal(pairs, iterations, types, probability, *arguments), probability)


def parameters(model):
    trans = {
        (model.source[i], model.target[o]): float(value)
        for i in range(len(model.source))
        for o, value in zip(*model.table.row(i), strict=True)
    }
    if model.null is not None:
        trans |= {(naive.NULL, model.target[o]): float(v) for o, v in enumerate(model.null) if v > 0}
    return trans


def links_of(links):
    return [[tuple(pair) for pair in sentence.tolist()] for sentence in links]


def moved_pairs(count=200):
    """Word by word translations in order, with a new word in front of every second target sentence."""
    draw = np.random.default_rng(5)
    pairs = []
    for m in range(count):
        words = draw.integers(0, 60, draw.integers(2, 9))
        extra = ["oh"] if m % 2 else []
        pairs.append(([f"s{w}" for w in words], extra + [f"t{w}" for w in words]))
    return pairs


# The distribution of positions.


@pytest.mark.parametrize("tension", [0.1, 1.0, 4.0, 14.0])
def test_closed_forms_equal_the_sums(tension):
    shapes = [(T, L) for T in range(1, 9) for L in range(1, 9)] + [(1, 200), (200, 1), (150, 97)]
    bitext = bitext_of([(["x"] * L, ["y"] * T) for T, L in shapes] + [([], ["y"]), (["x"], [])])
    positions = PositionDistribution(bitext, tension)
    for m, (T, L) in enumerate(shapes):
        for t in range(1, T + 1):
            weights = [np.exp(-tension * abs(t / T - s / L)) for s in range(1, L + 1)]
            place = positions.totals.starts[m] + t - 1
            assert positions.totals.totals[place] == pytest.approx(sum(weights), rel=1e-12)
            expected = naive.diagonal_distance(T, L, t, tension)
            assert positions.distances[place] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert positions.totals.starts[-2:].tolist() == [-1, -1]


def test_the_closed_forms_hold_on_very_long_lines():
    length, tension = 50_000, 0.1
    positions = PositionDistribution(bitext_of([(["x"] * length, ["y"])]), tension)
    places = np.arange(1, length + 1) / length
    weights = np.exp(-tension * (1 - places))
    assert positions.totals.totals[0] == pytest.approx(weights.sum(), rel=1e-9)
    assert positions.distances[0] == pytest.approx((weights * (1 - places)).sum() / weights.sum(), rel=1e-6)


def test_the_tension_moves_to_the_one_that_expects_the_distance():
    """In eight steps of fast_align each time."""
    shapes = [(5, 7), (9, 8), (12, 12), (3, 4)] * 3
    bitext = bitext_of([(["x"] * L, ["y"] * T) for T, L in shapes])
    wanted = PositionDistribution(bitext, 6.0)
    positions = PositionDistribution(bitext, 1.0)
    distance, tension = np.average(wanted.distances, weights=wanted.tokens), 1.0
    places = [(T, L, t) for T, L in shapes for t in range(1, T + 1)]
    for _ in range(8):
        tension += 20 * (np.mean([naive.diagonal_distance(*place, tension) for place in places]) - distance)
    positions.fit_tension(distance)
    assert 1 < positions.tension == pytest.approx(tension, rel=1e-9)
    for _ in range(40):
        positions.fit_tension(distance)
    assert positions.tension == pytest.approx(6.0, abs=1e-3)
    assert positions.tokens.sum() == 3 * (5 + 9 + 12 + 3)


# Fitting.


@WITH_OPTIONS
@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("seed", range(2))
def test_equals_naive_em(seed, iterations, options):
    pairs = random_pairs(seed)
    model = fit_diagonal(bitext_of(pairs), iterations=iterations, **options)
    trans, likelihoods, tension, _ = reference(pairs, iterations, options)
    found = parameters(model)
    assert model.tension == pytest.approx(tension, rel=1e-4)
    assert model.log_likelihood == pytest.approx(likelihoods, rel=1e-5)
    assert {pair for pair, value in trans.items() if value > 1e-20} <= found.keys()
    for pair, value in found.items():
        assert value == pytest.approx(trans[pair], rel=1e-3, abs=1e-9)


@WITH_OPTIONS
def test_scores_and_links_equal_the_naive_ones(messy_pairs, messy_bitext, options):
    model = fit_diagonal(messy_bitext, iterations=3, **options)
    new = [*messy_pairs[:20], (["never", "s1"], ["t0", "seen"]), (["never"], ["seen", "t1"])]
    trans, probability = parameters(model), model.null_probability
    for pairs in (messy_pairs, new):
        bitext = bitext_of(pairs)
        alpha, beta = model.score(bitext, "alpha"), model.score(bitext, "beta")
        links, logs = links_of(model.links(bitext)), model.log_probabilities(bitext)
        for m, (x, y) in enumerate(pairs):
            best = naive.diagonal_links(trans, x, y, probability, model.tension)
            chosen = {t: s for s, t in links[m]}
            assert len(chosen) == len(links[m])
            # Two positions may be as far from the diagonal on either side: rounding decides.
            assert all(chosen[t] in best[t] if t in chosen else not best[t] for t in range(len(y)))
            if x and y:
                assert np.allclose(beta[m], naive.beta(trans, x, y), rtol=1e-6, atol=0)
                expected = naive.diagonal_alpha(trans, x, y, probability, model.tension)
                assert np.allclose(alpha[m], expected, rtol=1e-4, atol=1e-7)
                total = 0.0
                for t, o in enumerate(y):
                    shares = naive.diagonal_shares(x, y, t, probability, model.tension)
                    total += np.log(max(sum(p * trans.get((i, o), 0.0) for i, p in shares), 1e-9))
                assert logs[m] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("pairs", [[], [([], [])] * 3, [(["a"], [])], [([], ["x"])]], ids=str)
def test_a_text_without_any_pair_of_words(pairs):
    bitext = bitext_of(pairs)
    model = fit_diagonal(bitext, iterations=3)
    assert model.log_likelihood == (0, 0, 0)
    assert links_of(model.links(bitext)) == [[]] * len(pairs)
    for kind in model.kinds:
        assert len(model.score(bitext, kind)) == len(pairs)
    assert len(model.log_probabilities(bitext)) == len(pairs)


def test_tiny_probabilities_stay_finite():
    model = fit_diagonal(bitext_of(moved_pairs(60)), iterations=60)
    assert np.isfinite(model.table.values).all()
    assert (model.table.values > 0).all()
    assert np.isfinite(model.log_likelihood).all()


@WITH_OPTIONS
def test_threads_do_not_change_a_bit(tmp_path, options):
    pairs = [(["der", *x], ["the", *y]) for x, y in random_pairs(8, pairs=300, source_types=80, target_types=90)]
    bitext, outcomes = bitext_of(pairs), []
    for threads in (1, 2, 3, 8):
        model = fit_diagonal(bitext, iterations=4, threads=threads, **options)
        model.save(tmp_path / f"{threads}.npz")
        links, alpha = model.links(bitext).to_pharaoh(), model.score(bitext, "alpha").values.tobytes()
        outcomes.append([(tmp_path / f"{threads}.npz").read_bytes(), links, alpha])
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]


def test_pruning_and_tolerance():
    bitext = bitext_of(random_pairs(3))
    whole, pruned = fit_diagonal(bitext), fit_diagonal(bitext, prune=0.05)
    assert np.array_equal(pruned.table.values, whole.table.values[whole.table.values >= 0.05])
    seen = []
    stopped = fit_diagonal(
        bitext, iterations=500, tolerance=1e-3, dirichlet=None, progress=lambda *step: seen.append(step)
    )
    assert 1 < len(stopped.log_likelihood) == len(seen) < 50
    assert seen[-1][:2] == (500, 500)  # a fit that has converged is complete
    assert seen[0][:2] == (1, 500)
    assert seen[-1][2] == f"log-likelihood {stopped.log_likelihood[-1]:.9g}  tension {stopped.tension:.3f}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"tension": 0.0}, "tension must lie in"),
        ({"tension": float("nan")}, "tension must lie in"),
        ({"null_probability": 0.0}, "NULL probability"),
        ({"null_probability": 1.0}, "NULL probability"),
        ({"dirichlet": 0.0}, "concentration"),
        ({"dirichlet": float("nan")}, "concentration"),
        ({"prune": 1.0}, "pruning"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_wrong_options(messy_bitext, options, message):
    with pytest.raises(AlignkitError, match=message):
        fit_diagonal(messy_bitext, **options)


# Files.


def test_load_refuses_what_does_not_fit(tmp_path, messy_bitext):
    path = tmp_path / "x.npz"
    model = fit_diagonal(messy_bitext, iterations=1)
    model.save(path)
    arrays, header = load_arrays(path, KIND, VERSION)
    header = {key: value for key, value in header.items() if key not in ("kind", "version")}
    for name, array in [("null", arrays["null"][:-1]), ("columns", arrays["columns"] + np.int32(1000))]:
        save_arrays(path, KIND, VERSION, {**arrays, name: array}, header)
        with pytest.raises(InputError, match="damaged"):
            load_diagonal(path)
    for key, value in [("tension", 0), ("tension", None), ("tension", float("nan")), ("null_probability", 1.5)]:
        save_arrays(path, KIND, VERSION, arrays, {**header, key: value})
        with pytest.raises(InputError, match="damaged"):
            load_diagonal(path)


def test_a_model_refuses_parts_that_do_not_fit(messy_bitext):
    m = fit_diagonal(messy_bitext, iterations=1)
    with pytest.raises(ValueError, match="does not fit the vocabularies"):
        Diagonal(m.target, m.source, m.table, 0.08, 4.0, null=m.null)
    with pytest.raises(ValueError, match="null must be"):
        Diagonal(m.source, m.target, m.table, 0.08, 4.0, null=m.null[:-1])
    with pytest.raises(ValueError, match="be 0 without null"):
        Diagonal(m.source, m.target, m.table, 0.08, 4.0)


def test_blank_sides_get_no_links():
    model = fit_diagonal(Bitext.from_sentences([["a"]], [["x"]]))
    text = Bitext.from_sentences([[], ["a"], [], ["a"]], [["x"], [], [], ["x"]])
    assert links_of(model.links(text)) == [[], [], [], [(0, 0)]]


def test_lengths_opposite_a_blank_side_have_exponentials():
    """Kernels look them up; outside of the arrays they would find anything, or crash."""
    positions = PositionDistribution(bitext_of([(["x"], ["y"]), (["x"] * 9, []), ([], ["y"] * 11)]), 2.0)
    starts, rise, fall = positions.exponentials
    assert (fall[starts[9] :][:9] * rise[starts[9] :][:9]).tolist() == pytest.approx([1.0] * 9)
    assert len(starts) == 12
    assert starts[11] + 11 <= len(fall)
