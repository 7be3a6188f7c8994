import naive
import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary

BOTH = pytest.mark.parametrize("null", [False, True])


def parameters(model):
    """{(source word or naive.NULL, target word): probability} as Python floats."""
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


def target_types(pairs):
    return len({o for _, y in pairs for o in y})


# Fitting.


@BOTH
@pytest.mark.parametrize("iterations", [1, 2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_equals_naive_em(seed, iterations, null):
    pairs = random_pairs(seed)
    model = fit_ibm1(bitext_of(pairs), iterations=iterations, null=null)
    expected, likelihoods = naive.ibm1(pairs, iterations, null, target_types(pairs))
    found = parameters(model)
    assert found.keys() == expected.keys()
    for pair, value in expected.items():
        assert found[pair] == pytest.approx(value, rel=2e-5, abs=1e-9)
    assert model.log_likelihood == pytest.approx(likelihoods, rel=1e-6)


@BOTH
@pytest.mark.parametrize("pairs", [[], [([], [])] * 3, [(["a"], [])], [([], ["x"])]], ids=str)
def test_a_text_without_any_pair_of_words(pairs, null):
    bitext = bitext_of(pairs)
    model = fit_ibm1(bitext, iterations=3, null=null)
    assert model.log_likelihood == (0, 0, 0)
    assert links_of(model.links(bitext)) == [[]] * len(pairs)
    for kind in model.kinds:
        assert len(model.score(bitext, kind)) == len(pairs)


@BOTH
def test_tiny_probabilities_stay_finite(null):
    """Many iterations drive most parameters to nothing; they must not end in NaN or infinity."""
    pairs, _ = permuted_copy(4, pairs=60, types=10)
    model = fit_ibm1(bitext_of(pairs), iterations=200, null=null)
    assert np.isfinite(model.table.values).all()
    assert (model.table.values > 0).all()
    assert np.isfinite(model.log_likelihood).all()


@pytest.mark.parametrize(("source", "target"), [(1, 400), (8000, 300)])
def test_long_sentences_keep_their_likelihood(source, target):
    """The product of a sentence's denominators is too small or too large for a number."""
    pairs = [([f"s{i}" for i in range(source)], [f"t{i}" for i in range(target)])]
    model = fit_ibm1(bitext_of(pairs), iterations=2, null=False)
    assert model.log_likelihood == pytest.approx([-target * np.log(target)] * 2, rel=1e-4)  # EM stays uniform


def test_options_replace_settings(messy_bitext):
    settings = IBM1Settings(iterations=7, dirichlet=0.1)
    model = fit_ibm1(messy_bitext, settings, iterations=3, null=False)
    assert parameters(model) == parameters(fit_ibm1(messy_bitext, iterations=3, dirichlet=0.1, null=False))
    assert (len(model.log_likelihood), settings.iterations) == (3, 7)


OPTIONS = pytest.mark.parametrize(
    "options",
    [
        {"null_probability": 0.08},
        {"null_probability": 0.4, "dirichlet": 0.01},
        {"dirichlet": 0.01},
        {"dirichlet": 2.0},
    ],
    ids=str,
)


@OPTIONS
@pytest.mark.parametrize("iterations", [1, 4])
def test_options_equal_naive_em(iterations, options):
    pairs = random_pairs(3)
    model = fit_ibm1(bitext_of(pairs), iterations=iterations, **options)
    expected, likelihoods = naive.ibm1_with_options(pairs, iterations, target_types(pairs), **options)
    found = parameters(model)
    assert found.keys() == expected.keys()
    for pair, value in expected.items():
        assert found[pair] == pytest.approx(value, rel=1e-4, abs=1e-9)
    assert model.log_likelihood == pytest.approx(likelihoods, rel=1e-6)
    assert model.null_probability == options.get("null_probability")


@OPTIONS
def test_scores_and_links_know_the_null_probability(messy_pairs, messy_bitext, options):
    model = fit_ibm1(messy_bitext, iterations=3, **options)
    trans, probability = parameters(model), model.null_probability
    new = [*messy_pairs, (["never", "s1"], ["t0", "unseen"])]
    alpha, links = model.score(bitext_of(new), "alpha"), links_of(model.links(bitext_of(new)))
    for m, (x, y) in enumerate(new):
        odds = 1.0 if probability is None else probability * len(x) / (1 - probability)
        # NULL's row times its odds against one source word is all that the naive scores need to know.
        scaled = {pair: value * (odds if pair[0] is naive.NULL else 1) for pair, value in trans.items()}
        assert links[m] == naive.links(scaled, x, y, True)
        for t, o in enumerate(y if x else []):
            row = [trans.get((i, o), 0.0) for i in x]
            total = sum(row) + odds * trans.get((naive.NULL, o), 0.0)
            uniform = [1 / (len(x) + odds)] * len(x)
            assert np.allclose(alpha[m][t], [v / total for v in row] if total else uniform, rtol=1e-4, atol=1e-12)


def test_exp_digamma_equals_scipy():
    from scipy.special import digamma

    from alignkit.kernels.translation_table import exp_digamma

    for x in (0.01, 0.02, 0.3, 1.0, 1.5, 7.9, 8.0, 123.0, 1e6):
        assert exp_digamma(x) == pytest.approx(np.exp(digamma(x)), rel=1e-10)


def test_the_tolerance_stops_early_and_not_before():
    bitext, seen = bitext_of(random_pairs(2)), []
    gains = np.diff(fit_ibm1(bitext, iterations=40).log_likelihood)
    stopped = fit_ibm1(bitext, iterations=40, tolerance=1e-3, progress=lambda *step: seen.append(step[:2]))
    likelihood = np.array(stopped.log_likelihood)
    assert 2 < len(likelihood) < 40
    assert seen[-1] == (40, 40)  # a fit that has converged is complete
    assert seen[:-1] == [(1 + i, 40) for i in range(len(likelihood) - 1)]
    assert gains[len(likelihood) - 2] < 1e-3 * abs(likelihood[-2])
    assert (np.diff(likelihood)[:-1] >= 1e-3 * np.abs(likelihood[:-2])).all()
    assert parameters(stopped) == parameters(fit_ibm1(bitext, iterations=len(likelihood)))


def test_pruning_drops_the_improbable_and_nothing_else():
    bitext = bitext_of(random_pairs(2))
    whole, pruned = fit_ibm1(bitext), fit_ibm1(bitext, prune=0.1)
    kept = {pair: v for pair, v in parameters(whole).items() if v >= np.float32(0.1) or pair[0] is naive.NULL}
    assert parameters(pruned) == kept
    assert len(kept) < len(parameters(whole))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1, not 0"),
        ({"threads": -1}, r"threads must lie in .1, 1024., not -1"),
        ({"iteration": 3}, "IBM1Settings has no option 'iteration'; it has iterations, null,"),
        ({"null_probability": 0.0}, "NULL probability"),
        ({"null_probability": 1.0}, "NULL probability"),
        ({"null_probability": 0.1, "null": False}, "NULL probability"),
        ({"dirichlet": 0.0}, "concentration"),
        ({"dirichlet": float("nan")}, "concentration"),
        ({"dirichlet": 1e308}, "concentration"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"prune": 1.0}, "pruning"),
        ({"prune": -0.1}, "pruning"),
    ],
    ids=str,
)
def test_options_out_of_range(messy_bitext, options, message):
    with pytest.raises(AlignkitError, match=message):
        fit_ibm1(messy_bitext, **options)


# Scoring.


@BOTH
def test_scores_and_links_equal_the_naive_ones(messy_pairs, messy_bitext, null):
    model = fit_ibm1(messy_bitext, iterations=3, null=null)
    trans = parameters(model)
    alpha, beta = model.score(messy_bitext, "alpha"), model.score(messy_bitext, "beta")
    links = links_of(model.links(messy_bitext))
    for m, (x, y) in enumerate(messy_pairs):
        if x and y:
            assert np.allclose(beta[m], naive.beta(trans, x, y), rtol=1e-6, atol=0)
            assert np.allclose(alpha[m], naive.alpha(trans, x, y, null), rtol=1e-5)
        assert links[m] == naive.links(trans, x, y, null)


@BOTH
def test_new_text_with_unknown_words_and_another_vocabulary(null):
    pairs = random_pairs(6)
    model = fit_ibm1(bitext_of(pairs), iterations=3, null=null)
    trans = parameters(model)
    new = [
        *random_pairs(7, source_types=20, target_types=25),
        (["never"] * 2, ["seen"]),
        (["s0", "never"], ["t0"]),
    ]
    bitext = bitext_of(new)
    alpha, beta, links = (
        model.score(bitext, "alpha"),
        model.score(bitext, "beta"),
        links_of(model.links(bitext)),
    )
    for m, (x, y) in enumerate(new):
        if x and y:
            assert np.allclose(beta[m], naive.beta(trans, x, y), rtol=1e-6, atol=0)
            assert np.allclose(alpha[m], naive.alpha(trans, x, y, null), rtol=1e-5)
        assert links[m] == naive.links(trans, x, y, null)


@BOTH
def test_a_known_word_never_seen_in_training_is_like_an_unknown_one(null):
    """Vocabularies may be larger than the text: a joint one of subwords, or that of a whole corpus."""
    source, target = Vocabulary.from_tokens(["a", "rare"]), Vocabulary.from_tokens(["x", "y", "rare"])
    training = Bitext(Corpus.from_sentences([["a"]], source), Corpus.from_sentences([["x", "y"]], target))
    model = fit_ibm1(training, iterations=2, null=null)
    text = Bitext(Corpus.from_sentences([["a", "rare"]], source), Corpus.from_sentences([["rare", "x"]], target))
    unknown = Bitext.from_sentences([["a", "other"]], [["another", "x"]])
    for kind in model.kinds:
        assert np.array_equal(model.score(text, kind)[0], model.score(unknown, kind)[0])
    assert np.allclose(model.score(text, "alpha")[0][0], 1 / (2 + null))
    assert links_of(model.links(text)) == [[(0, 1)]]


def test_ties_go_left_and_repeated_words_share():
    model = fit_ibm1(Bitext.from_sentences([["a", "b"]], [["x"]]), iterations=1, null=False)
    text = Bitext.from_sentences([["b", "a", "b"], ["a", "b", "b"]], [["x"], ["x", "x"]])
    assert links_of(model.links(text)) == [[(0, 0)], [(0, 0), (0, 1)]]
    assert np.allclose(model.score(text, "alpha")[0], 1 / 3)
