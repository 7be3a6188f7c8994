"""The hidden Markov aligner (Vogel, Ney and Tillmann 1996), one direction."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.aligner.protocol import check_kind
from alignkit.classical.hmm.estimation import Estimation
from alignkit.classical.hmm.inference import Chain, Table, best_places, log_probabilities, posteriors, start_from
from alignkit.classical.hmm.settings import DECODINGS, HMMSettings
from alignkit.classical.priors import Prior
from alignkit.classical.translation_table import PairTable, pack_model, unpack_model
from alignkit.errors import AlignkitError, InputError
from alignkit.links.from_positions import links_from_positions
from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.parallel import thread_count
from alignkit.scores.scores import Scores
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import Progress

KIND, VERSION = "alignkit.hmm", 1


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
        decode: how links are found, one of :data:`DECODINGS`.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    chain: Chain
    log_likelihood: tuple[float, ...] = ()
    threads: int | None = field(default=None, compare=False)
    name: str = "hmm"
    kinds: tuple[str, ...] = ("alpha", "beta")
    decode: str = "posterior"

    def __post_init__(self) -> None:
        if self.decode not in DECODINGS:
            raise AlignkitError(f"links are decoded by {' or '.join(DECODINGS)}, not {self.decode}")
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
        """float64 (M,): log p(target | source) of each pair, up to the factor for its length; no fertility."""
        return log_probabilities(bitext, self._table(bitext), (self.chain, None), thread_count(self.threads))[0]

    def links(self, bitext: Bitext) -> Links:
        """Links by ``decode``: ``posterior``, each target word with its likeliest source position, if NULL is not
        likelier; ``viterbi``, the links of the likeliest alignment of the sentence as a whole."""
        if self.decode == "viterbi":
            threads = thread_count(self.threads)
            return links_from_positions(
                best_places(bitext, self._table(bitext), self.chain, threads), bitext, threads
            )
        return best_links(self.score(bitext))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        header = {"log_likelihood": list(self.log_likelihood), "null_probability": self.chain.null_probability}
        header["decode"] = self.decode
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
        return HMM(source, target, table, chain, likelihood, decode=header.get("decode", "posterior"))
    except (TypeError, ValueError, AlignkitError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(path, f"damaged: {error}") from error


def estimate(
    estimation: Estimation, last_shares: tuple[float, float], progress: Progress | None, started: bool = False
) -> tuple[float, ...]:
    """Runs all iterations and an E-step more; the log-likelihood that each E-step found.

    Args:
        estimation: before its first E-step.
        last_shares: of the last E-step, whose links are left in the estimation.
        progress: called with (done, total, message) after each iteration.
        started: whether the estimation goes on from a fitted chain, which needs no lexical iterations.
    """
    settings = estimation.settings
    lexical = 0 if started else settings.lexical_iterations
    total = lexical + settings.iterations
    likelihoods = []
    plain = settings.is_maximum_likelihood and estimation.pseudo_counts is None
    for iteration in range(total):
        if iteration == lexical and not started:
            estimation.start_chain()
        likelihoods.append(estimation.expect())
        estimation.maximise()
        settled = iteration >= lexical and estimation.has_settled
        if progress is not None:
            message = f"{'log-likelihood' if plain else 'score'} {likelihoods[-1]:.6g}"
            progress(total if settled else iteration + 1, total, message)
        if settled:
            break
    likelihoods.append(estimation.expect(last_shares))
    return tuple(likelihoods)


def fit_hmm(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | None = None,
    start: HMM | None = None,
    **options: Any,
) -> HMM:
    """Fits one direction.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: plain EM by default.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model that the iterations with the chain go on from, without lexical ones before. What is
            new in this text is initialised uniformly (:func:`alignkit.classical.priors.start_values`).
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: no such option, or a setting out of its range.
    """
    settings = with_options(settings or HMMSettings(), options)
    estimation = Estimation(bitext, settings, (1.0, 0.0), thread_count(threads), prior)
    if start is not None:
        start_from(estimation, (start.source, start.target), start.table, (start.chain, None))
    likelihoods = estimate(estimation, (1.0, 0.0), progress, start is not None)
    chain = Chain.of(estimation, 0)
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    offsets, columns, _ = estimation.statistics.rows
    table = PairTable(offsets, columns, chain.values, len(target))
    return HMM(source, target, table, chain, likelihoods, threads, decode=settings.decode)
