"""What every fitted aligner must do, whatever it is. A new aligner adds a line to ``CASES``."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.aligner import Aligner, Reversed, Symmetrized, load_aligner
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import JointHMM, fit_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.links.from_scores import scores_of_links
from alignkit.scores import SCORE_KINDS, Scores
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer, encode_bitext, learn_words


@dataclass(frozen=True)
class Case:
    """``fit(bitext, threads)`` gives a fitted aligner.

    A neural aligner reads ids, so its ``encode`` maps tokenised sentence pairs to the bitext it wants. Its matrix
    products come from libraries whose last bits may depend on the number of threads: ``exact`` is False.
    """

    name: str
    fit: Callable[[Bitext, int], Aligner]
    encode: Callable[[list], Bitext] = bitext_of
    exact: bool = True


TRAINING = random_pairs(11, pairs=80)


@cache
def tokenizer() -> Tokenizer:
    return learn_words(" ".join([*x, *y]) for x, y in TRAINING)


def encode_for_networks(pairs: list) -> Bitext:
    return encode_bitext(tokenizer(), [" ".join(x) for x, _ in pairs], [" ".join(y) for _, y in pairs])


def fit_tiny_network(attention: str) -> Callable[[Bitext, int], Aligner]:
    def fit(bitext: Bitext, threads: int) -> Aligner:
        from alignkit.neural.settings import LstmSettings, RunSettings, TrainingSettings
        from alignkit.neural.training.trainer import Trainer
        from alignkit.neural.training.translation import TranslationTask

        network = LstmSettings(embedding=16, hidden=16, layers=2, attention=attention)
        training = TrainingSettings(batch=8, learning_rate=1e-2, epochs=3, bleu="never")
        with torch_threads(threads):
            return Trainer(
                TranslationTask(bitext, bitext, RunSettings(network=network, training=training), tokenizer())
            ).run()

    return fit


def fit_reversed(bitext: Bitext, threads: int) -> Aligner:
    return Reversed(fit_ibm1(bitext.reversed, threads=threads), threads)


def fit_two_ibm1s(bitext: Bitext, threads: int) -> Aligner:
    return Symmetrized(*(fit_ibm1(side, threads=threads) for side in (bitext, bitext.reversed)), threads=threads)


def fit_tiny_networks(bitext: Bitext, threads: int) -> Aligner:
    """Networks of both directions, of whitespace words."""
    sides = (bitext.source, bitext.target)
    words = [[side.words(m) for m in range(len(bitext))] for side in sides]
    fit = fit_tiny_network("general")
    pairs = [list(zip(*order, strict=True)) for order in (words, words[::-1])]
    return Symmetrized(*(fit(encode_for_networks(each), threads) for each in pairs))


def fit_tiny_proxy(bitext: Bitext, threads: int) -> Aligner:
    from alignkit.neural.proxy import fit_proxy
    from alignkit.neural.settings import ProxySettings

    with torch_threads(threads):
        return fit_proxy(bitext, bitext, ProxySettings(embedding=16, batch=8, epochs=5))


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield
    torch.set_num_threads(before)


CASES = [
    Case("ibm1", lambda bitext, threads: fit_ibm1(bitext, iterations=4, threads=threads)),
    Case("ibm1 without NULL", lambda bitext, threads: fit_ibm1(bitext, iterations=4, null=False, threads=threads)),
    Case(
        "ibm1 with priors",
        lambda bitext, threads: fit_ibm1(
            bitext, iterations=4, threads=threads, null_probability=0.08, dirichlet=0.01, prune=1e-4
        ),
    ),
    Case("diagonal", lambda bitext, threads: fit_diagonal(bitext, iterations=4, threads=threads)),
    Case(
        "diagonal without NULL",
        lambda bitext, threads: fit_diagonal(bitext, iterations=4, null=False, threads=threads),
    ),
    Case("hmm", lambda bitext, threads: fit_hmm(bitext, threads=threads)),
    Case("hmm with priors", lambda bitext, threads: fit_hmm(bitext, JOINT_SETTINGS, threads=threads)),
    Case("both hmms", lambda bitext, threads: fit_joint(bitext, threads=threads)),
    Case("views", lambda bitext, threads: fit_joint(bitext, quality="best", threads=threads)),
    Case("reversed ibm1", fit_reversed),
    Case("both ibm1s", fit_two_ibm1s),
    Case("lstm", fit_tiny_network("general"), encode=encode_for_networks, exact=False),
    Case("uniform", fit_tiny_network("uniform"), encode=encode_for_networks, exact=False),
    Case("both lstms", fit_tiny_networks, exact=False),
    Case("proxy", fit_tiny_proxy, encode=encode_for_networks, exact=False),
]

NEW = [
    *random_pairs(12, pairs=25, source_types=30, target_types=30),  # some words are unknown
    (["never", "seen"], ["before", "either", "before"]),
    (["s0"], ["never"]),
    (["never"], ["t0"]),
]


TEXTS = {"training": TRAINING, "new": NEW, "blank": [([], [])] * 3, "none": []}


@cache
def fitted(case: Case, threads: int = 1) -> Aligner:
    """Each case is fitted once for every number of threads."""
    return case.fit(case.encode(TRAINING), threads)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def aligner(case):
    return fitted(case)


@pytest.fixture(scope="module")
def bitexts(case):
    return {name: case.encode(pairs) for name, pairs in TEXTS.items()}


@pytest.fixture(scope="module")
def scores(aligner, bitexts):
    """{(text, kind): scores}."""
    return {(name, kind): aligner.score(text, kind) for name, text in bitexts.items() for kind in aligner.kinds}


def same(one: Scores, other: Scores) -> bool:
    return np.array_equal(one.shapes, other.shapes) and one.values.tobytes() == other.values.tobytes()


def test_it_is_an_aligner_with_known_kinds(aligner):
    assert isinstance(aligner, Aligner)
    assert aligner.name
    assert aligner.kinds
    assert set(aligner.kinds) <= set(SCORE_KINDS)
    assert len(set(aligner.kinds)) == len(aligner.kinds)
    labels = [aligner.label(kind) for kind in aligner.kinds]
    assert len(set(labels)) == len(labels)
    assert all(words and sentence.endswith(".") for words, sentence in labels)


def test_n_pairs_in_n_matrices_out(bitexts, scores):
    for (name, _), each in scores.items():
        assert isinstance(each, Scores)
        assert len(each) == len(bitexts[name])
        assert np.array_equal(each.shapes, bitexts[name].shapes)
        assert each.values.dtype == np.float32
        assert np.isfinite(each.values).all()


def test_alpha_and_beta_are_probabilities(aligner, scores):
    """Rows of alpha are shares of at most 1, but where alpha is of links: a word can have several."""
    for (_, kind), each in scores.items():
        if kind in ("alpha", "beta"):
            assert ((each.values >= 0) & (each.values <= 1 + 1e-6)).all()
        if kind == "alpha" and not isinstance(aligner, JointHMM):
            for matrix in each:
                assert (matrix.sum(axis=1, dtype=np.float64) <= 1 + 1e-5).all()


def test_scores_are_not_all_alike(aligner, scores):
    """Guards the other tests: an aligner that always answers 0 would pass them."""
    for kind in aligner.kinds:
        assert len(np.unique(scores["training", kind].values)) > 5


def test_an_unknown_kind_is_an_error_that_names_the_known_ones(aligner, bitexts):
    missing = {"alpha", "beta"} - set(aligner.kinds)
    for kind in ("gamma", "", "ALPHA", None, *missing):
        with pytest.raises(AlignkitError, match=f"has no {kind} scores; it has {', '.join(aligner.kinds)}"):
            aligner.score(bitexts["training"], kind)


def test_scoring_twice_gives_the_same_bits(aligner, bitexts, scores):
    for (name, kind), each in scores.items():
        assert same(aligner.score(bitexts[name], kind), each)


def test_a_pair_is_scored_alike_whatever_stands_beside_it(aligner, bitexts, scores):
    order = np.random.default_rng(1).permutation(len(NEW))[:15]
    for kind in aligner.kinds:
        together, apart = scores["new", kind], aligner.score(bitexts["new"].take(order), kind)
        for place, m in enumerate(order):
            assert np.allclose(apart[place], together[m], rtol=1e-4, atol=1e-6)


def test_links_have_their_probabilities(case, aligner, bitexts, scores):
    if "alpha" not in aligner.kinds:
        with pytest.raises(AlignkitError, match="has no alpha scores"):
            aligner.links(bitexts["new"])
        return
    for name, text in bitexts.items():
        links, probabilities = aligner.links_and_probabilities(text)
        assert len(links) == len(text)
        assert links.to_pharaoh() == aligner.links(text).to_pharaoh()
        assert probabilities.tobytes() == aligner.link_probabilities(text, links).tobytes()
        assert ((probabilities > 0) & (probabilities <= 1 + 1e-6)).all()
        if not isinstance(aligner, Reversed):  # whose rows are scaled
            alpha = scores[name, "alpha"]
            assert (probabilities >= scores_of_links(links, alpha) - 1e-6).all()
    assert len(aligner.links(bitexts["training"]).pairs) > 20 or not case.exact  # a tiny network attends to EOS


def test_what_it_predicts_has_probabilities(aligner, bitexts):
    sides = {"target": aligner.log_probabilities, "source": aligner.reverse_log_probabilities}
    assert set(aligner.predicts) <= set(sides)
    for side, of_pairs in sides.items():
        if side not in aligner.predicts:
            with pytest.raises(AlignkitError, match="gives no probability of a sentence"):
                of_pairs(bitexts["new"])
            continue
        for text in bitexts.values():
            found = of_pairs(text)
            assert found.shape == (len(text),)
            assert (found <= 0).all()
            assert np.isfinite(found).all()
    if aligner.predicts:
        assert aligner.sentence_scores(bitexts["new"]).shape == (len(NEW), len(aligner.predicts))


def test_a_batch_of_sentences_in_lines_of_links_out(case, aligner):
    if "alpha" not in aligner.kinds:
        return
    pairs = [*NEW[:5], ([], ["t0"]), (["s0"], []), ([], []), *TRAINING[:5]]
    source, target = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    lines = aligner.align_batch(source, target)
    assert lines == aligner.on_words().links(bitext_of(pairs)).to_strings()
    assert lines[5:8] == ["", "", ""]
    assert any(lines) or not case.exact
    assert aligner.align_batch(*zip(*pairs, strict=True)) == lines
    assert aligner.align_batch([], []) == []
    with pytest.raises(AlignkitError, match="1 source and 2 target"):
        aligner.align_batch(["a"], ["b", "c"])
    for wrong in ("a b", None):
        for sides in ((wrong, ["a"]), (["a"], wrong), ([None], ["a"])):
            with pytest.raises(AlignkitError, match=r"must be (text or )?a list of"):
                aligner.align_batch(*sides)


def test_saving_and_loading_changes_nothing(aligner, bitexts, scores, tmp_path):
    one, two = (tmp_path / folder / f"saved{aligner.ending}" for folder in "ab")
    for path in (one, two):
        path.parent.mkdir()
        aligner.save(path)
    assert one.read_bytes() == two.read_bytes()
    loaded = load_aligner(one)
    assert (loaded.name, loaded.kinds, loaded.predicts) == (aligner.name, aligner.kinds, aligner.predicts)
    again = tmp_path / f"again{aligner.ending}"
    loaded.save(again)
    assert again.read_bytes() == one.read_bytes()
    for (name, kind), each in scores.items():
        assert same(loaded.score(bitexts[name], kind), each)


def test_pickling_changes_nothing(aligner, bitexts, scores):
    """As engines do that hand an aligner to their processes."""
    copy = pickle.loads(pickle.dumps(aligner))
    assert getattr(copy, "fitted", None) is None  # the training text stays behind
    assert (copy.name, copy.kinds) == (aligner.name, aligner.kinds)
    for kind in aligner.kinds:
        assert same(copy.score(bitexts["new"], kind), scores["new", kind])


def test_threads_do_not_change_the_scores(case, aligner, bitexts, scores):
    if not case.exact:  # the same network: another fit would be another network
        with torch_threads(2):
            for kind in aligner.kinds:
                two = aligner.score(bitexts["new"], kind)
                assert np.allclose(two.values, scores["new", kind].values, rtol=1e-3, atol=1e-6)
        return
    other = fitted(case, 3)
    assert all(same(other.score(bitexts[name], kind), one) for (name, kind), one in scores.items())
