"""Gradient-boosted trees that decide links, by LightGBM (Ke et al. 2017), in two passes.

The second pass also sees what the first says of each link and of those around it. It learns from what trees say
that have not seen the pair, as it will of other text (stacking, Wolpert 1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.links.links import GoldLinks
from alignkit.scores import Scores
from alignkit.supervised.features import Cells, Frequencies
from alignkit.support.files import Fields
from alignkit.support.packages import need
from alignkit.support.records import Record
from alignkit.text.vocabulary import unpack_vocabulary, vocabulary_arrays

PASSES, ROUNDS = 2, 100
#: As few gold pairs as there may be have some thousand possible links: small trees, each of a part of them.
SETTINGS = {
    "objective": "binary",
    "num_leaves": 16,
    "learning_rate": 0.075,
    "min_data_in_leaf": 20,
    "min_data_per_group": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
SIDES = "source", "target"


@dataclass(frozen=True, eq=False)
class Trees:
    """What decides links.

    Attributes:
        passes: the trees of each pass, as LightGBM writes them.
        words: the frequencies of the words of both sides.
    """

    passes: tuple[str, ...]
    words: tuple[Frequencies, Frequencies]

    def probabilities(self, cells: Cells, threads: int = 1) -> Scores:
        """The probability of every link of the pairs; 0 for all but the possible ones."""
        seen = [cells.alpha]
        for trees in self.passes:
            seen.append(cells.scores(_predicted(trees, cells.features(self.words, seen), threads)))
        return seen[-1]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of its file."""
        found = {f"trees{n}": np.frombuffer(trees.encode(), np.uint8) for n, trees in enumerate(self.passes)}
        for side, words in zip(SIDES, self.words, strict=True):
            found |= vocabulary_arrays(side, words.vocabulary) | {f"{side}_counts": words.counts}
        return found

    def header(self) -> dict[str, str]:
        """The header of its file: a checksum of the trees, since LightGBM ends the process if they are damaged."""
        return {"trees": sha256("".join(self.passes).encode()).hexdigest()}


def unpack_trees(fields: Fields, header: Record) -> Trees:
    """Trees of their arrays and header; raises AlignkitError or ValueError if these are damaged."""
    words = [
        Frequencies(unpack_vocabulary(fields, side), fields.get(f"{side}_counts", np.int64)) for side in SIDES
    ]
    passes = tuple(fields.get(f"trees{n}", np.uint8).tobytes().decode() for n in range(PASSES))
    trees = Trees(passes, (words[0], words[1]))
    if trees.header()["trees"] != header.text("trees"):
        raise AlignkitError("its trees are not those that were saved")
    return trees


def grown(
    cells: Cells, gold: GoldLinks, folds: np.ndarray, words: tuple[Frequencies, Frequencies]
) -> tuple[Trees, Scores]:
    """Trees that are grown on gold pairs. Possible gold links are neither right nor wrong.

    Args:
        cells: possible links of M pairs.
        gold: of the pairs.
        folds: int (M,), the fold of each.
        words: the frequencies of the words of both sides.

    Returns:
        the trees, and the probability of every link by trees of the other folds.
    """
    sure, known = cells.among(gold.sure), cells.among(gold.sure) | ~cells.among(gold.possible)
    seen, passes = [cells.alpha], []
    for _ in range(PASSES):
        features = cells.features(words, seen)
        found = np.zeros(len(features))
        for fold in np.unique(folds):
            held = folds[cells.pair] == fold
            learned = known & ~held
            found[held] = _predicted(_trained(features[learned], sure[learned]), features[held])
        passes.append(_trained(features[known], sure[known]))
        seen.append(cells.scores(found))
    return Trees(tuple(passes), words), seen[-1]


def _trained(features: np.ndarray, sure: np.ndarray) -> str:
    import lightgbm

    quiet = {"verbosity": -1}
    data = lightgbm.Dataset(features, sure.astype(np.float32), categorical_feature=[0, 1], params=quiet)
    return str(lightgbm.train(SETTINGS, data, ROUNDS).model_to_string())


def _predicted(trees: str, features: np.ndarray, threads: int = 1) -> np.ndarray:
    if not len(features):
        return np.zeros(0)
    need("lightgbm")
    import lightgbm

    return np.asarray(lightgbm.Booster(model_str=trees).predict(features, num_threads=threads))
