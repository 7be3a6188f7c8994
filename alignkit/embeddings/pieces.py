"""Words as the likeliest sequences of pieces: the unigram model of SentencePiece (Kudo 2018)."""

from __future__ import annotations

from unicodedata import category

from alignkit.embeddings.model_file import PackedModel

SPACE = "\u2581"  # what stands before a word
PENALTY = 10.0  # of a letter that no piece has, below the least likely piece
#: Punctuation of these categories stands close to the word before it in the texts that the model has read.
CLOSING = ("Pe", "Pf", "Po")


class PieceTokenizer:
    """Cuts words into the pieces of a model; no piece reaches across a space, so words can be cut one by one.

    Args:
        model: the vocabulary.
    """

    def __init__(self, model: PackedModel) -> None:
        self._ids, self._unknown = model.pieces, model.unknown
        self._scores = model.scores.tolist()
        self._worst = min(self._scores) - PENALTY
        self._longest = max(map(len, self._ids))
        self._replacements = model.replacements

    def encode(self, word: str) -> list[int]:
        """The ids of a word's likeliest pieces; one at least."""
        letters = "".join(self._replacements.get(letter, letter) for letter in word)
        text = SPACE.join(letters.split(" ")).strip(SPACE)
        is_closing = text != "" and all(category(letter) in CLOSING for letter in word)
        return self._best(text if is_closing else SPACE + text)

    def _best(self, text: str) -> list[int]:
        """Viterbi's algorithm over all ways to cut the text."""
        size = len(text)
        best, piece, start = [0.0] + [float("-inf")] * size, [0] * (size + 1), [0] * (size + 1)
        for low in range(size):
            for high in range(low + 1, min(size, low + self._longest) + 1):
                found = self._ids.get(text[low:high], self._unknown)
                if found != self._unknown and best[low] + self._scores[found] > best[high]:
                    best[high], piece[high], start[high] = best[low] + self._scores[found], found, low
            if best[low] + self._worst > best[low + 1]:
                best[low + 1], piece[low + 1], start[low + 1] = best[low] + self._worst, self._unknown, low
        ids = []
        while size > 0:
            ids.append(piece[size])
            size = start[size]
        return ids[::-1]
