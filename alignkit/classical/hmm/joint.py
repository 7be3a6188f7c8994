"""The best classical aligner here: two hidden Markov models that share their links while they learn.

What it adds to the HMM, each because it pays on development data (benchmarks/quality.py):
- the two directions share a table of counts, summed over the mean of their posteriors (a soft form of the
  agreement of Liang, Taskar and Klein 2006);
- sparse Dirichlet priors, with a link's own expectation taken out of the counts that judge it, as a collapsed
  Gibbs sampler does (Asuncion et al. 2009), so that a rare word cannot feed on itself;
- pseudo-counts from the translations of words with the same first or last letters, less those of the word itself;
- fertility, as a factor for one more link given the expected number of the others (mean field);
- links where the two posteriors, weighted by the number of tokens each direction explains, pass a threshold.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.aligner.protocol import check_kind
from alignkit.classical.hmm.estimation import Estimation
from alignkit.classical.hmm.inference import Chain, Table, log_probabilities, posteriors, start_from
from alignkit.classical.hmm.model import estimate
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit.classical.priors import Prior
from alignkit.classical.translation_table import PairTable, pack_model, unpack_model
from alignkit.errors import AlignkitError, InputError
from alignkit.links.from_scores import links_above
from alignkit.links.links import Links
from alignkit.parallel import thread_count
from alignkit.scores.scores import Scores, cap_row_sums
from alignkit.settings import with_options
from alignkit.storage import Fields, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import Progress

KIND, VERSION = "alignkit.hmm-joint", 1
LARGEST_PAIR, LARGEST_TEXT = 25_000_000, 400_000_000  # elements (t, l)


@dataclass(frozen=True, eq=False)
class JointHMM:
    """Two fitted hidden Markov aligners that give link probabilities together.

    Attributes:
        source, target: the vocabularies.
        table: p(o|i) of every pair that met in the training text.
        forward, reverse: the parameters of the two directions.
        share: weight of the forward posterior in a link's probability; the reverse one has the rest.
        threshold: links have at least this probability: higher for precision, lower for recall.
        threads: how many threads scoring uses (None: all); no result depends on it.
        fitted_probabilities: the link probabilities of the text that the model was fitted on; not saved. For that
            text they are better than :meth:`probabilities`: a link is judged without its own part in the counts.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    forward: Chain
    reverse: Chain
    share: float
    threshold: float = JOINT_THRESHOLD
    threads: int | None = field(default=None, compare=False)
    name: str = "hmm-joint"
    kinds: tuple[str, ...] = ("alpha", "beta")
    fitted_probabilities: Scores | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        types = (len(self.source), len(self.target))
        sizes = [(len(chain.floor), len(chain.null)) for chain in (self.forward, self.reverse)]
        if (self.table.shape, *sizes) != (types, types, types[::-1]):
            raise ValueError("table, chains and vocabularies do not fit each other")
        if len(self.reverse.values) != len(self.table.values):
            raise ValueError("both directions must have a value for each pair of the table")
        if not (0 < self.share < 1 and 0 <= self.threshold <= 1):
            raise ValueError("share and threshold must lie between 0 and 1")

    def _table(self, bitext: Bitext) -> Table:
        ids = self.source.translate(bitext.source.vocabulary), self.target.translate(bitext.target.vocabulary)
        return Table(self.table.offsets, self.table.columns, self.table.width, ids)

    def probabilities(self, bitext: Bitext) -> Scores:
        """The probability of every link, (T, L) for each pair. A row may sum to more than 1: a word can have
        several links."""
        chains, shares = (self.forward, self.reverse), (self.share, 1 - self.share)
        return posteriors(bitext, self._table(bitext), chains, shares, thread_count(self.threads))[0]

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = p(y_t | x_l), 0 for pairs never seen; alpha: :meth:`probabilities`, rows that sum to more
        than 1 divided by their sum."""
        check_kind(self, kind)
        if kind == "beta":
            return self._table(bitext).scores(bitext, self.table.values, thread_count(self.threads))
        return cap_row_sums(self.probabilities(bitext))

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, up to the factor for its length; no fertility."""
        chains = (self.forward, None)
        return log_probabilities(bitext, self._table(bitext), chains, thread_count(self.threads))[0]

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the same of log p(source | target)."""
        chains = (self.forward, self.reverse)
        found = log_probabilities(bitext, self._table(bitext), chains, thread_count(self.threads))[1]
        assert found is not None
        return found

    def links(self, bitext: Bitext) -> Links:
        """Links whose probability reaches the threshold."""
        return links_above(self.probabilities(bitext), self.threshold, self.threads)

    @property
    def fitted_links(self) -> Links:
        """Links of the text that the model was fitted on whose probability reaches the threshold.

        Raises:
            AlignkitError: the model was loaded from a file, which does not keep them.
        """
        if self.fitted_probabilities is None:
            raise AlignkitError("a loaded model has no links of the text it was fitted on; ask for links(bitext)")
        return links_above(self.fitted_probabilities, self.threshold, self.threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model; :func:`alignkit.load_aligner` reads it."""
        header = {"share": self.share, "threshold": self.threshold}
        header["null_probability"] = self.forward.null_probability
        arrays = pack_model(self.source, self.target, self.table, None)
        arrays |= self.forward.pack("forward") | self.reverse.pack("reverse")
        del arrays["forward_values"]
        save_arrays(path, KIND, VERSION, arrays, header)


def load_joint(path: str | os.PathLike[str]) -> JointHMM:
    """Reads what :meth:`JointHMM.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    arrays, header = load_arrays(path, KIND, VERSION)
    try:
        source, target, table, _ = unpack_model(Fields(path, arrays))
        fields = Fields(path, arrays | {"forward_values": table.values})
        null = float(header.get("null_probability", -1))
        chains = Chain.unpack(fields, "forward", null), Chain.unpack(fields, "reverse", null)
        return JointHMM(source, target, table, *chains, float(header.get("share", -1)), float(header["threshold"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"damaged: {error}") from error


def fit_joint(
    bitext: Bitext,
    settings: HMMSettings | None = None,
    *,
    threshold: float = JOINT_THRESHOLD,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: Prior | None = None,
    start: JointHMM | None = None,
    **options: Any,
) -> JointHMM:
    """Fits both directions together.

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: of the estimation, by default :data:`JOINT_SETTINGS`.
        threshold: see :class:`JointHMM`.
        threads: all there are by default; the result has the same bits for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts.
        start: a fitted model that the iterations go on from, as in :func:`alignkit.classical.hmm.model.fit_hmm`.
        options: fields of the settings, instead of or in addition to ``settings``.

    Raises:
        AlignkitError: the threshold is outside [0, 1], there is no such option, or a setting is out of its range.
    """
    if not 0 <= threshold <= 1:
        raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
    settings = with_options(settings or JOINT_SETTINGS, options)
    tokens = len(bitext.source.tokens), len(bitext.target.tokens)
    # Each direction explains the tokens of one side: where that is the longer one, it says more.
    share = (tokens[1] + 1) / (sum(tokens) + 2)
    last = (share, 1 - share)
    estimation = Estimation(bitext, settings, (0.5, 0.5), thread_count(threads), prior)
    if start is not None:
        start_from(estimation, (start.source, start.target), start.table, (start.forward, start.reverse))
    estimate(estimation, last, progress, start is not None)
    del estimation.ids  # the memory is wanted for what follows
    forward, reverse = Chain.of(estimation, 0), Chain.of(estimation, 1)
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    offsets, columns, _ = estimation.statistics.rows
    table = PairTable(offsets, columns, forward.values, len(target))
    links = np.clip(estimation.links, 0, 1, out=estimation.links)
    probabilities = Scores(links, estimation.offsets, bitext.shapes)
    return JointHMM(
        source, target, table, forward, reverse, share, threshold, threads, fitted_probabilities=probabilities
    )


def fits_in_memory(bitext: Bitext) -> bool:
    """Whether a text is small enough for :func:`fit_joint`, which keeps about 20 bytes per element of T*L."""
    elements = bitext.source.lengths * bitext.target.lengths
    return int(elements.max(initial=0)) <= LARGEST_PAIR and int(elements.sum()) <= LARGEST_TEXT
