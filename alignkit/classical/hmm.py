"""The hidden Markov aligner (Vogel, Ney and Tillmann 1996), one direction."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from alignkit.aligner import check_kind
from alignkit.bitext import Bitext
from alignkit.classical.chain import Chain, Table, posteriors
from alignkit.classical.hmm_estimation import Estimation, Settings
from alignkit.classical.tables import PairTable, pack_model, unpack_model
from alignkit.errors import InputError
from alignkit.links import Links
from alignkit.parallel import thread_count
from alignkit.scores import Scores
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.vocabulary import Vocabulary

KIND, VERSION = "alignkit.hmm", 1
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class HMM:
    """A fitted hidden Markov aligner.

    Attributes:
        source, target: the vocabularies.
        table: p(o|i) of every pair that met in the training text.
        chain: all other parameters (its ``values`` are the table's).
        log_likelihood: of the training text under the parameters that each E-step used. Plain EM makes it rise;
            with priors or fertility it is only a score, of which that is not to be expected.
        threads: how many threads scoring uses (None: all); no result depends on it.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    chain: Chain
    log_likelihood: tuple[float, ...] = ()
    threads: int | None = field(default=None, compare=False)
    name: str = "hmm"
    kinds: tuple[str, ...] = ("alpha", "beta")

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.source), len(self.target)):
            raise ValueError(f"table of shape {self.table.shape} does not fit the vocabularies")
        if (len(self.chain.floor), len(self.chain.null)) != self.table.shape:
            raise ValueError("the chain does not fit the vocabularies")

    def _table(self, bitext: Bitext) -> Table:
        ids = self.source.translate(bitext.source.vocabulary), self.target.translate(bitext.target.vocabulary)
        return Table(self.table.offsets, self.table.columns, self.table.width, ids)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = p(y_t | x_l), 0 for pairs never seen; alpha[t, l] = the posterior of y_t coming from x_l.

        What a row of alpha lacks to 1 is NULL's.
        """
        check_kind(self, kind)
        table, threads = self._table(bitext), thread_count(self.threads)
        if kind == "beta":
            return table.scores(bitext, self.table.values, threads)
        return posteriors(bitext, table, (self.chain, None), (1.0, 0.0), threads)[0]

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, up to the factor for its length."""
        arguments = (bitext, self._table(bitext), (self.chain, None), (1.0, 0.0))
        return posteriors(*arguments, thread_count(self.threads))[1]

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its likeliest source position, if NULL is not likelier (posterior decoding)."""
        return Links.from_scores(self.score(bitext))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        header = {"log_likelihood": list(self.log_likelihood), "null_probability": self.chain.null_probability}
        arrays = pack_model(self.source, self.target, self.table, None)
        packed = self.chain.pack("forward")
        del packed["forward_values"]
        save_arrays(path, KIND, VERSION, arrays | packed, header)


def load_hmm(path: str | os.PathLike[str]) -> HMM:
    """Reads what :meth:`HMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    try:
        source, target, table, _ = unpack_model(Fields(path, arrays))
        fields = Fields(path, arrays | {"forward_values": table.values})
        chain = Chain.unpack(fields, "forward", float(header.get("null_probability", -1)))
        likelihood = tuple(float(value) for value in header.get("log_likelihood", ()))
        return HMM(source, target, table, chain, likelihood)
    except (TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def estimate(
    bitext: Bitext,
    settings: Settings,
    shares: tuple[float, float],
    last_shares: tuple[float, float],
    threads: int,
    progress: Progress | None,
) -> tuple[Estimation, tuple[float, ...]]:
    """Runs all iterations and an E-step more: (estimation, log-likelihood that each E-step found).

    Args:
        shares: see :class:`Estimation`.
        last_shares: of the last E-step, whose links are left in the estimation.
    """
    estimation = Estimation(bitext, settings, shares, threads)
    total = settings.lexical_iterations + settings.iterations
    likelihoods = []
    name = "log-likelihood" if settings.is_maximum_likelihood else "score"
    for iteration in range(total):
        if iteration == settings.lexical_iterations:
            estimation.start_chain()
        likelihoods.append(estimation.expect())
        estimation.maximise()
        settled = iteration >= settings.lexical_iterations and estimation.has_settled
        if progress is not None:
            progress(total if settled else iteration + 1, total, f"{name} {likelihoods[-1]:.6g}")
        if settled:
            break
    likelihoods.append(estimation.expect(last_shares))
    return estimation, tuple(likelihoods)


def fit_hmm(
    bitext: Bitext,
    settings: Settings | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> HMM:
    """Fits one direction.

    Args:
        bitext: M pairs; pairs with an empty side teach nothing.
        settings: plain EM by default.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
    """
    settings = settings or Settings()
    shares = (1.0, 0.0)
    estimation, likelihoods = estimate(bitext, settings, shares, shares, thread_count(threads), progress)
    chain = Chain.of(estimation, 0)
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    offsets, columns, _ = estimation.statistics.rows
    table = PairTable(offsets, columns, chain.values, len(target))
    return HMM(source, target, table, chain, likelihoods, threads)
