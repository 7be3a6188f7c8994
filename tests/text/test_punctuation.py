"""Which tokens are punctuation."""

from __future__ import annotations

import pytest

from alignkit.text.punctuation import is_punctuation, punctuation_types
from alignkit.text.vocabulary import Vocabulary

MARKS, WORDS = [",", "...", "»", "€", "«»"], ["a.", "5", "", "x"]
CASES = [*((token, True) for token in MARKS), *((token, False) for token in WORDS)]


@pytest.mark.parametrize(("token", "wanted"), CASES)
def test_punctuation(token, wanted):
    assert is_punctuation(token) is wanted


def test_types_of_a_vocabulary():
    vocabulary = Vocabulary.from_tokens([token for token, _ in CASES if token])
    assert punctuation_types(vocabulary).tolist() == [wanted for token, wanted in CASES if token]
