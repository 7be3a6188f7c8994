"""What heads of self-attention do: how often each attends to neighbours, rare words, subwords of the same word.

For every role, a mask says which tokens j a token i would attend to (Voita et al. 2019; Clark et al. 2019). A
head's score is the share of tokens whose largest weight falls on such a token, beside the share that a head would
reach that picks one at random. Tokens without any such j are left out. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.metrics.bootstrap import percentile_interval, ratio, resampled_sums
from alignkit.text.subword_marks import without_mark

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class TokenFacts:
    """What roles depend on, for a sentence of L tokens.

    Attributes:
        words: int (L,), the word of each token; -1 for the sentence's begin and end.
        counts: (L,), how often each token is seen in the text.
        is_punctuation: bool (L,).
    """

    words: np.ndarray
    counts: np.ndarray
    is_punctuation: np.ndarray


def _shifted(step: int) -> Callable[[TokenFacts], np.ndarray]:
    return lambda facts: np.eye(len(facts.words), k=step, dtype=bool)


def _same_word(facts: TokenFacts) -> np.ndarray:
    words = facts.words
    same: np.ndarray = (words[:, None] == words) & (words >= 0)
    return same & ~np.eye(len(words), dtype=bool)


def _rarest(facts: TokenFacts) -> np.ndarray:
    inside = facts.words >= 0
    least = facts.counts[inside].min() if inside.any() else -1
    return _columns(inside & (facts.counts == least))


def _columns(chosen: np.ndarray) -> np.ndarray:
    """The mask in which every token attends to the chosen ones."""
    return np.tile(chosen, (len(chosen), 1))


#: role -> bool (L, L), the tokens j that token i attends to
ROLES: dict[str, Callable[[TokenFacts], np.ndarray]] = {
    "previous token": _shifted(-1),
    "next token": _shifted(1),
    "itself": _shifted(0),
    "same word": _same_word,
    "rarest word": _rarest,
    "punctuation": lambda facts: _columns(facts.is_punctuation),
    "begin or end": lambda facts: _columns(facts.words < 0),
}


class RoleCounts:
    """Sums over sentences, from which the table of roles is made."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []

    def add(self, weights: np.ndarray, facts: TokenFacts) -> None:
        """Count a sentence.

        Args:
            weights: (layers, K, L, L).
            facts: of its tokens.
        """
        best, length = weights.argmax(3), weights.shape[2]
        place = np.arange(length)
        found = np.zeros((*weights.shape[:2], len(ROLES), 4))
        for n, role in enumerate(ROLES.values()):
            mask = role(facts)
            rows = mask.any(1)
            found[:, :, n, 0] = (mask[place, best] & rows).sum(2)
            found[:, :, n, 1] = (mask.sum(1) / max(length, 1)).sum()
            found[:, :, n, 2] = (weights * mask).sum((2, 3))
            found[:, :, n, 3] = rows.sum()
        self._rows.append(found)

    def table(self, seed: int = 0) -> pd.DataFrame:
        """A row for each layer, head (from 1 on) and role.

        ``share`` of the tokens' largest weights, with ``low`` and ``high`` (95 % bootstrap over sentences); its
        ``chance``; ``difference`` of the two; ``certain``, whether the interval of the difference excludes 0; and
        the mean ``weight`` that falls on such tokens. NaN for a role that no token has.
        """
        import pandas as pd

        counts = np.stack(self._rows)
        rows = []
        for layer, head, n in np.ndindex(counts.shape[1:4]):
            each = counts[:, layer, head, n]
            hits, chance, weight, tokens = each.sum(0)
            draws = resampled_sums(each, seed)
            low, high = percentile_interval(ratio(draws[:, 0], draws[:, 3]))
            least, most = percentile_interval(ratio(draws[:, 0] - draws[:, 1], draws[:, 3]))
            share, by_chance, mean = (float(ratio(x, tokens)) for x in (hits, chance, weight))
            facts = {"layer": layer + 1, "head": head + 1, "role": list(ROLES)[n], "share": share, "low": low}
            facts |= {"high": high, "chance": by_chance, "difference": share - by_chance}
            rows.append({**facts, "certain": bool(least > 0 or most < 0), "weight": mean})
        return pd.DataFrame(rows)


def token_facts(tokens: Sequence[str], words: np.ndarray, counts: np.ndarray) -> TokenFacts:
    """The facts of a sentence.

    Args:
        tokens: as text, subwords with or without the sign of a word's begin.
        words, counts: as of :class:`TokenFacts`.
    """
    named = [without_mark(token) for token in tokens]  # a lone mark of a word's start is no punctuation
    marks = [
        word >= 0 and token != "" and not any(c.isalnum() for c in token)
        for token, word in zip(named, words.tolist(), strict=True)
    ]
    return TokenFacts(words, counts, np.array(marks, bool))
