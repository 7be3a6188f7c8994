"""What every fitted aligner must do, whatever it is. A new aligner adds a line to ``CASES``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.aligner import Aligner, GivesLinksAndProbabilities, Reversed, Symmetrized, load_aligner
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.scores import SCORE_KINDS, Scores
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer, encode_bitext, learn_words


@dataclass(frozen=True)
class Case:
    """``fit(bitext, threads)`` gives a fitted aligner; ``suffix`` is that of its saved file.

    A neural aligner reads ids, so its ``encode`` maps tokenised sentence pairs to the bitext it wants. Its matrix
    products come from libraries whose last bits may depend on the number of threads: ``exact`` is False.
    """

    name: str
    fit: Callable[[Bitext, int], Aligner]
    suffix: str = ".npz"
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
        from alignkit.neural.training.translation import translation_trainer

        network = LstmSettings(embedding=16, hidden=16, layers=2, attention=attention)
        training = TrainingSettings(batch=8, learning_rate=1e-2, epochs=3, bleu="never")
        with torch_threads(threads):
            return translation_trainer(
                bitext, bitext, RunSettings(network=network, training=training), tokenizer()
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
    Case("reversed ibm1", fit_reversed),
    Case("both ibm1s", fit_two_ibm1s),
    Case("lstm", fit_tiny_network("general"), ".pt", encode_for_networks, exact=False),
    Case("uniform", fit_tiny_network("uniform"), ".pt", encode_for_networks, exact=False),
    Case("both lstms", fit_tiny_networks, exact=False),
    Case("proxy", fit_tiny_proxy, ".pt", encode_for_networks, exact=False),
]

NEW = [
    *random_pairs(12, pairs=25, source_types=30, target_types=30),  # some words are unknown
    (["never", "seen"], ["before", "either", "before"]),
    (["s0"], ["never"]),
    (["never"], ["t0"]),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def aligner(case):
    return case.fit(case.encode(TRAINING), 1)


@pytest.fixture(scope="module", params=["training text", "new text", "blank text", "no text"])
def bitext(request, case):
    texts = {"training text": TRAINING, "new text": NEW, "blank text": [([], [])] * 3, "no text": []}
    return case.encode(texts[request.param])


def same(one: Scores, other: Scores) -> bool:
    return np.array_equal(one.shapes, other.shapes) and one.values.tobytes() == other.values.tobytes()


def test_it_is_an_aligner_with_known_kinds(aligner):
    assert isinstance(aligner, Aligner)
    assert aligner.name
    assert aligner.kinds
    assert set(aligner.kinds) <= set(SCORE_KINDS)
    assert len(set(aligner.kinds)) == len(aligner.kinds)


def test_n_pairs_in_n_matrices_out(aligner, bitext):
    for kind in aligner.kinds:
        scores = aligner.score(bitext, kind)
        assert isinstance(scores, Scores)
        assert len(scores) == len(bitext)
        assert np.array_equal(scores.shapes, bitext.shapes)
        assert scores.values.dtype == np.float32
        assert np.isfinite(scores.values).all()


def test_alpha_rows_are_shares_of_at_most_one(aligner, bitext):
    """But for aligners whose alpha is the probability of a link: a word can have several."""
    if "alpha" not in aligner.kinds:
        with pytest.raises(AlignkitError, match="has no alpha scores"):
            aligner.score(bitext, "alpha")
        return
    for matrix in aligner.score(bitext, "alpha"):
        assert (matrix >= 0).all()
        assert (matrix <= 1 + 1e-6).all()
        if not isinstance(aligner, GivesLinksAndProbabilities):
            assert (matrix.sum(axis=1, dtype=np.float64) <= 1 + 1e-5).all()


def test_beta_is_a_probability(aligner, bitext):
    if "beta" not in aligner.kinds:
        with pytest.raises(AlignkitError, match="has no beta scores"):
            aligner.score(bitext, "beta")
        return
    values = aligner.score(bitext, "beta").values
    assert ((values >= 0) & (values <= 1 + 1e-6)).all()


def test_scores_are_not_all_alike(case, aligner):
    """Guards the other tests: an aligner that always answers 0 would pass them."""
    for kind in aligner.kinds:
        values = aligner.score(case.encode(TRAINING), kind).values
        assert len(np.unique(values)) > 5


@pytest.mark.parametrize("kind", ["gamma", "", "ALPHA", None])
def test_an_unknown_kind_is_an_error_that_names_the_known_ones(case, aligner, kind):
    with pytest.raises(AlignkitError, match=", ".join(aligner.kinds)):
        aligner.score(case.encode(TRAINING), kind)


def test_scoring_twice_gives_the_same_bits(aligner, bitext):
    for kind in aligner.kinds:
        assert same(aligner.score(bitext, kind), aligner.score(bitext, kind))


def test_a_pair_is_scored_alike_whatever_stands_beside_it(case, aligner):
    bitext = case.encode(NEW)
    order = np.random.default_rng(1).permutation(len(NEW))[:15]
    for kind in aligner.kinds:
        together, apart = aligner.score(bitext, kind), aligner.score(bitext.take(order), kind)
        for place, m in enumerate(order):
            assert np.allclose(apart[place], together[m], rtol=1e-4, atol=1e-6)


def test_saving_and_loading_changes_nothing(case, aligner, bitext, tmp_path):
    path = tmp_path / f"saved{case.suffix}"
    aligner.save(path)
    loaded = load_aligner(path)
    assert loaded.name == aligner.name
    assert loaded.kinds == aligner.kinds
    for kind in aligner.kinds:
        assert same(loaded.score(bitext, kind), aligner.score(bitext, kind))


def test_saving_twice_gives_the_same_bytes(case, aligner, tmp_path):
    one, two = (tmp_path / folder / f"saved{case.suffix}" for folder in "ab")
    for path in (one, two):
        path.parent.mkdir()
        aligner.save(path)
    assert one.read_bytes() == two.read_bytes()
    again = tmp_path / f"again{case.suffix}"
    load_aligner(one).save(again)
    assert again.read_bytes() == one.read_bytes()


def test_threads_do_not_change_the_scores(case, aligner, bitext):
    for threads in (2, 3, 8) if case.exact else (2,):
        other = case.fit(case.encode(TRAINING), threads)
        for kind in aligner.kinds:
            one, two = other.score(bitext, kind), aligner.score(bitext, kind)
            assert same(one, two) if case.exact else np.allclose(one.values, two.values, rtol=1e-2, atol=1e-5)
