"""A lexicon as pseudo-counts, and going on from a fitted model."""

import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.classical.hmm.hmm import HMMEstimation, fit_hmm
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.views import View
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.lexicon import lexicon_of, tsv
from alignkit.classical.priors import LexiconPrior, read_prior, start_values
from alignkit.errors import AlignkitError, InputError
from alignkit.kernels.hmm_e_step import BOTH
from alignkit.kernels.inverted_index import TableRows
from alignkit.text.vocabulary import Vocabulary

AMBIGUOUS = [(["das", "haus"], ["house", "the"])] * 3  # nothing says which belongs to which
CROSSED = [[0, 1], [1, 0]]
FITS = {
    "ibm1": lambda bitext, **options: fit_ibm1(bitext, **options).links(bitext),
    "hmm": lambda bitext, **options: fit_hmm(bitext, **options).links(bitext),
    "joint": lambda bitext, **options: fit_joint(bitext, **options).fitted_links,
}


def written(tmp_path, text):
    path = tmp_path / "lexicon.tsv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("reverse", ["", "\t1"])
def test_a_prior_decides_what_the_text_leaves_open(name, reverse, tmp_path):
    path = written(tmp_path, f"das\tthe\t0.9{reverse}\nhaus\thouse\t1{reverse}\nunknown\twords\t0.5{reverse}\n")
    bitext = bitext_of(AMBIGUOUS)
    assert FITS[name](bitext, prior=read_prior(path))[0].tolist() == CROSSED
    backwards = written(tmp_path, f"das\thouse\t0.9{reverse}\nhaus\tthe\t1{reverse}\n")
    assert FITS[name](bitext, prior=read_prior(backwards))[0].tolist() == [[0, 0], [1, 1]]


def test_a_prior_adds_its_weight_to_the_counts(tmp_path):
    """One iteration of IBM Model 1 without NULL: counts are co-occurrence, so the sum is known."""
    pairs = [(["a", "b"], ["x", "y"]), (["a"], ["x"])]
    prior = read_prior(written(tmp_path, "a\tx\t0.5\t0.25\na\tz\t0.5\nb\ty\t1\n"), weight=4.0)
    table = fit_ibm1(bitext_of(pairs), iterations=1, null=False, prior=prior).table
    # a meets x 1.5 times and y 0.5 times, with 4 * 0.5 more for x; z is not in the text
    assert table.to_dense()[0].tolist() == pytest.approx([3.5 / 4, 0.5 / 4])
    assert table.to_dense()[1].tolist() == pytest.approx([0.5 / 5, 4.5 / 5])
    turned = fit_ibm1(bitext_of(pairs).reversed, iterations=1, null=False, prior=prior.reversed).table
    # x: a 0.5 + 1 and b 0.5, with 4 * p(a | x) = 1 more for a
    assert turned.to_dense()[0].tolist() == pytest.approx([2.5 / 3, 0.5 / 3])


def test_a_prior_reaches_both_directions_of_the_hmm(tmp_path):
    prior = read_prior(written(tmp_path, "a\tx\t0.5\t0.25\nb\ty\t1\n"), weight=4.0)
    bitext = bitext_of([(["a", "b"], ["x", "y"])])
    model = HMMEstimation(bitext, HMMSettings(null_probability=0.2), BOTH, 1, prior)
    model.initialise()
    model.add_transitions()
    model.e_step()
    model.m_step()
    # Each pair of words counts 0.4, half of what NULL leaves, and so many pseudo-counts in the two directions.
    forward, reverse = np.array([[2, 0], [0, 4]]) + 0.4, np.array([[1, 0], [0, 4]]) + 0.4
    found = [each.emission.reshape(2, 2) for each in model.release(0, 1).directions]
    assert np.allclose(found[0], forward / forward.sum(axis=1, keepdims=True), rtol=1e-4)
    assert np.allclose(found[1], reverse / reverse.sum(axis=0, keepdims=True), rtol=1e-4)


def test_what_lexicon_writes_can_be_read(tmp_path):
    pairs = [*permuted_copy(4, pairs=60)[0], (["\xa0s", "\x1cs"], ["t\xa0", "t\u202f"])]  # spaces of words
    bitext = bitext_of(pairs)
    models = fit_ibm1(bitext), fit_ibm1(bitext.reversed)
    path = tmp_path / "lexicon.tsv"
    path.write_bytes(b"".join(tsv(*map(lexicon_of, models))))
    prior = read_prior(path, 1.0)
    counts = prior.pseudo_counts(
        bitext, TableRows(models[0].table.offsets, models[0].table.columns, models[0].table.values)
    )
    assert np.allclose(counts[0], models[0].table.values, rtol=1e-4)
    values = [models[1].table.value(int(o), i) for i in range(models[0].table.shape[0]) for o in row(models[0], i)]
    assert np.allclose(counts[1], values, rtol=1e-4)


def row(model, i):
    return model.table.row(i)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tx\t0.5\na x 0.5\n", "line 2: is not a line of a lexicon .*; line 1 decides"),
        ("\na\tx\nb\n", r"line 3: is not a line of a dictionary \(source, tab, target\); line 2 decides"),
        ("LEX\ta\tx\t4\nHMMF\ta\t4\n", "line 2: is not a line of eflomal's priors"),
        ("LEX\ta\tx\t-4\n", "line 1: .*eflomal.* counts are not below 0"),
        ("x a 0.5\nx a\n", "line 2: is not a line of lexical weights of Moses"),
        ("word\n", "line 1: is not a line of a lexicon"),
        ("a b\tx\n", "has no pair of words"),
        ("a\tx\thigh\n", "line 1: is not a line of a lexicon"),
        ("a\tx\t1.5\n", r"line 1: .* probabilities lie in \[0, 1\]"),
        ("a\tx\tnan\n", r"line 1: .* probabilities lie in \[0, 1\]"),
        ("a\tx\t0.5\na\tx\t0.5\n", "line 2: the pair"),
    ],
)
def test_a_malformed_lexicon_is_an_error(text, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read_prior(written(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "a\tx\nb\ty\na\ty\na\tx\n",
        "# a comment\n#another\n\na\tx\nb\ty\na\ty\n",
        "a ||| x\nb ||| y\n\na|||y\n",
        "a x\nb y\na y\n",
    ],
)
def test_a_dictionary_has_equal_probabilities(text, tmp_path):
    prior = read_prior(written(tmp_path, text))
    found = {
        (prior.source[i], prior.target[o]): p for (i, o), p in zip(prior.pairs, prior.values.tolist(), strict=True)
    }
    assert found == {("a", "x"): [0.5, 1], ("b", "y"): [1, 0.5], ("a", "y"): [0.5, 0.5]}


def test_what_looks_like_a_comment_or_null_may_be_an_entry(tmp_path):
    assert list(read_prior(written(tmp_path, "#\t#\n<NULL>\tx\n")).source) == ["#", "<NULL>"]
    with pytest.raises(InputError, match="line 1: is not a line of a lexicon"):
        read_prior(written(tmp_path, "# a note on nothing else\n"))


def test_priors_of_other_programs(tmp_path):
    eflomal = "LEX\ta\tx\t3\nLEX\ta\ty\t1\nLEX\t<NULL>\ty\t9\nLEX\tb\ty\t3\nFERF\ta\t1\t4\nHMMF\t-1\t2\n"
    prior = read_prior(written(tmp_path, eflomal))
    assert prior.values.tolist() == [[0.75, 1], [0.25, 0.25], [1, 0.75]]
    prior = read_prior(written(tmp_path, "x a 0.5\ny NULL 0.5\ny b 0.25\n"))
    assert (list(prior.source), list(prior.target)) == (["a", "b"], ["x", "y"])
    assert prior.values.tolist() == [[0.5, 0.5], [0.25, 0.25]]


def test_entries_of_several_words_are_left_out(tmp_path, caplog):
    caplog.set_level("INFO", "alignkit")
    prior = read_prior(written(tmp_path, "New York\tNueva York\na\tx\nthe\tel uno\n"))
    assert list(prior.source) == ["a"]
    assert "left out entries of several words: 2" in caplog.text


def test_impossible_priors_are_errors():
    words = Vocabulary.from_tokens(["a"])
    pairs = np.zeros((1, 2), np.int32)
    for weight in (-1.0, 1e308, float("nan")):
        with pytest.raises(AlignkitError, match="weight"):
            LexiconPrior(words, words, pairs, np.ones((1, 2), np.float32), weight)
    with pytest.raises(ValueError, match="negative"):
        LexiconPrior(words, words, pairs, -np.ones((1, 2), np.float32))
    with pytest.raises(ValueError, match="two"):
        LexiconPrior(words, words, pairs, np.ones((1, 1), np.float32))


@pytest.mark.parametrize("options", [{}, {"null": False}, {"null_probability": 0.1}])
def test_ibm1_goes_on_to_the_bit(options, tmp_path):
    bitext = bitext_of(random_pairs(3, pairs=100))
    whole = fit_ibm1(bitext, iterations=5, **options)
    fit_ibm1(bitext, iterations=2, **options).save(tmp_path / "m.npz")
    from alignkit.aligner import load_aligner

    rest = fit_ibm1(bitext, iterations=3, start=load_aligner(tmp_path / "m.npz"), **options)
    assert rest.table.values.tobytes() == whole.table.values.tobytes()
    assert (rest.null is None) == (whole.null is None)
    if whole.null is not None:
        assert rest.null.tobytes() == whole.null.tobytes()
    assert rest.log_likelihood == whole.log_likelihood[2:]


def test_the_hmm_goes_on_where_it_was():
    bitext = bitext_of(random_pairs(5, pairs=100))
    whole = fit_hmm(bitext, HMMSettings(iterations=5))
    first = fit_hmm(bitext, HMMSettings(iterations=2))
    rest = fit_hmm(bitext, HMMSettings(iterations=3), start=first)
    assert np.allclose(rest.table.values, whole.table.values, atol=1e-4)
    assert np.allclose(rest.forward.transition, whole.forward.transition, atol=1e-4)
    assert rest.log_likelihood == pytest.approx(whole.log_likelihood[7:], rel=1e-5)


def test_new_words_get_their_share():
    old, new = [(["a"], ["x"]), (["b"], ["y"])], [(["a", "c"], ["x", "z"]), (["b"], ["y"])]
    start = fit_ibm1(bitext_of(old), iterations=5, null=False)
    bitext = bitext_of(new)
    fitted = fit_ibm1(bitext, iterations=1, null=False, start=start)
    # The rows start as a: (x 1, z 1/3) / (4/3), c: (x 1/3, z 1/3) / (2/3), b: y 1.
    x = np.array([0.75, 0.5]) / 1.25, np.array([0.25, 0.5]) / 0.75  # posteriors of x and of z over a and c
    expected = np.stack(x, axis=1) / np.stack(x, axis=1).sum(axis=1, keepdims=True)
    vocabulary = bitext.target.vocabulary
    found = fitted.table.to_dense()[:2][:, [vocabulary.id("x"), vocabulary.id("z")]]
    assert np.allclose(found, expected, atol=1e-6)
    for fit in (fit_hmm, fit_joint):
        again = fit(bitext, start=fit(bitext_of(old)))
        assert again.links(bitext)[0].tolist() == [[0, 0], [1, 1]]


def test_a_pruned_pair_starts_as_one_that_never_met():
    """Capped by the threshold, pairs of known words that first meet in another text would hardly be learned."""
    bitext = bitext_of([(["a"], ["x"])] * 3 + [(["a"], ["y"])])
    full, pruned = (fit_ibm1(bitext, iterations=1, null=False, prune=p) for p in (0.0, 0.3))
    rows = TableRows(full.table.offsets, full.table.columns, full.table.values)
    words = pruned.source, pruned.target
    assert full.table.values.tolist() == pytest.approx([0.75, 0.25])
    start = start_values(pruned.table, words, pruned.table.values, bitext, rows)
    assert start.tolist() == pytest.approx([0.75 / 1.25, 0.5 / 1.25])


def test_a_word_without_new_pairs_keeps_its_values():
    """Also where the text has only some of its pairs, so that they sum to less than 1."""
    model = fit_ibm1(bitext_of([(["a"], ["x"])] * 3 + [(["a"], ["y"])]), iterations=1, null=False)
    text = bitext_of([(["a"], ["x"])])
    rows = TableRows(np.array([0, 1]), np.array([0], np.int32), np.zeros(1, np.float32))
    start = start_values(model.table, (model.source, model.target), model.table.values, text, rows)
    assert start.tolist() == [0.75]


def test_the_joint_model_goes_on_without_lexical_iterations():
    text, planted = permuted_copy(6, pairs=300)
    first = fit_joint(bitext_of(text[:250]), views=(View(),))
    done = []
    rest = fit_joint(bitext_of(text[250:]), start=first, progress=lambda *step: done.append(step[1]))
    assert done[0] == JOINT_SETTINGS.iterations
    alone = fit_joint(bitext_of(text[250:]))

    def right(fit):
        return sum(set(map(tuple, fit.fitted_links[m].tolist())) == set(planted[250 + m]) for m in range(50))

    assert right(rest) >= 48
    assert right(rest) >= right(alone)


def test_null_must_be_in_both_models():
    bitext = bitext_of(AMBIGUOUS)
    with pytest.raises(AlignkitError, match="NULL"):
        fit_ibm1(bitext, start=fit_ibm1(bitext, null=False))
