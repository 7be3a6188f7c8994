"""A fit that is interrupted after any iteration and begun again has the bytes of one that never stopped."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.checkpoints import Checkpoints
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.exchange import ALONE, exchanging, with_checkpoints
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.priors import LexiconPrior
from alignkit.errors import AlignkitError, InputError
from alignkit.workflow.fitting import Fitting
from alignkit.workflow.settings import AlignSettings


@cache
def started(fit):
    """A model of another text to start from, fitted without a checkpoint."""
    with exchanging(ALONE):
        return fit(bitext_of(random_pairs(5, pairs=40)), iterations=2)


FITS = {
    "ibm1": (lambda bitext, **more: fit_ibm1(bitext, iterations=4, dirichlet=0.1, **more), 4),
    "ibm1 in blocks": (lambda bitext, **more: fit_ibm1(bitext, iterations=4, block_tokens=100, **more), 4),
    "diagonal in blocks": (
        lambda bitext, **more: fit_diagonal(bitext, iterations=4, block_tokens=100, **more),
        4,
    ),
    "diagonal": (lambda bitext, **more: fit_diagonal(bitext, iterations=4, **more), 4),
    "hmm": (lambda bitext, **more: fit_hmm(bitext, iterations=2, lexical_iterations=2, **more), 4),
    "hmm without lexical iterations": (
        lambda bitext, **more: fit_hmm(bitext, iterations=3, lexical_iterations=0, **more),
        3,
    ),
    "hmm from a model": (lambda bitext, **more: fit_hmm(bitext, iterations=3, start=started(fit_hmm), **more), 3),
    "joint": (lambda bitext, **more: fit_joint(bitext, iterations=3, lexical_iterations=2, **more), 5),
    "joint from a model": (
        lambda bitext, **more: fit_joint(bitext, iterations=3, start=started(fit_joint), **more),
        3,
    ),
}


class StoppedError(Exception):
    pass


def stopping(last):
    """Progress that stops a fit after this number of iterations."""
    seen = []

    def progress(*_):
        seen.append(1)
        if len(seen) == last:
            raise StoppedError

    return progress


def saved(model, path):
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", FITS)
def test_a_fit_goes_on_after_every_iteration(name, tmp_path):
    fit, iterations = FITS[name]
    bitext = bitext_of(random_pairs(8, pairs=60))
    wanted = saved(fit(bitext), tmp_path / "never.npz")
    for last in range(1, iterations + 1):
        folder = tmp_path / str(last)
        with exchanging(with_checkpoints(ALONE, Checkpoints(folder))), pytest.raises(StoppedError):
            fit(bitext, progress=stopping(last))
        done = []
        with exchanging(with_checkpoints(ALONE, Checkpoints(folder))):
            model = fit(bitext, progress=lambda *step, done=done: done.append(step[0]))
        assert saved(model, tmp_path / "again.npz") == wanted
        assert len(done) == iterations - last
        states = list((folder / "fit-1").glob("state-*"))
        assert len(states) == 1  # older ones are removed


def test_both_directions_have_checkpoints_of_their_own(tmp_path):
    bitext = bitext_of(random_pairs(9, pairs=50))
    settings = AlignSettings("ibm1", symmetrization="union", iterations=3, checkpoint=tmp_path / "c")
    wanted = Fitting(AlignSettings("ibm1", symmetrization="union", iterations=3)).fit(bitext).links(bitext)
    with pytest.raises(StoppedError):
        Fitting(settings).fit(bitext, progress=stopping(4))
    found = Fitting(settings).fit(bitext)
    assert found.links(bitext).pairs.tobytes() == wanted.pairs.tobytes()
    assert {path.name for path in (tmp_path / "c").iterdir()} == {"fit-1", "fit-2"}


class Given:
    """Embeddings by which all tokens are equally alike."""

    def __init__(self, level):
        self.level = level

    def levels(self, bitext, threads, progress=None):
        return np.full((bitext.source.lengths * bitext.target.lengths).sum(), self.level, np.uint8)


@pytest.mark.parametrize("fit", [fit_ibm1, fit_hmm, fit_joint])
def test_a_checkpoint_tells_what_a_fit_knows_from_elsewhere(fit, tmp_path):
    """Start models of the same sizes, lexicons with the same values, and embeddings."""
    bitext = bitext_of(random_pairs(8, pairs=40))
    model = fit(bitext, iterations=1)
    others = fit(bitext, iterations=2), fit(bitext_of(random_pairs(9, pairs=40)), iterations=1)
    vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
    pairs, values = np.array([[0, 0], [1, 2]], np.int32), np.full((2, 2), 0.5, np.float32)
    prior = LexiconPrior(*vocabularies, pairs, values)
    cases = [
        ("start", model, others),
        ("prior", prior, [replace(prior, weight=3.0), replace(prior, pairs=np.array([[0, 0], [1, 1]], np.int32))]),
    ]
    if fit is fit_joint:
        cases.append(("prior", Given(3), [Given(4), prior]))
    for n, (name, given, different) in enumerate(cases):

        def again(value, name=name, n=n):
            with exchanging(with_checkpoints(ALONE, Checkpoints(tmp_path / str(n)))):
                fit(bitext, iterations=3, **{name: value})

        again(given)
        again(given)
        for other in (*different, None):
            with pytest.raises(AlignkitError, match="of other settings"):
                again(other)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    bitext, other = bitext_of(random_pairs(8, pairs=40)), bitext_of(random_pairs(9, pairs=40))

    def fit(text, **options):
        with exchanging(with_checkpoints(ALONE, Checkpoints(tmp_path / "c"))):
            return fit_ibm1(text, **options)

    fit(bitext, iterations=2)
    for text, options in ((other, {"iterations": 2}), (bitext, {"iterations": 3})):
        with pytest.raises(AlignkitError, match="of another text, of other settings"):
            fit(text, **options)
    (tmp_path / "c" / "fit-1" / "complete.json").write_text("{")
    with pytest.raises(InputError, match=r"complete\.json: damaged"):
        fit(bitext, iterations=2)
    (tmp_path / "file").touch()
    with pytest.raises(AlignkitError, match="cannot write to"):
        Checkpoints(tmp_path / "file" / "c")
