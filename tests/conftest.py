"""Fixtures that several rooms share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from planted import bitext_of, permuted_copy, random_pairs

# A busy machine draws examples slowly, and kernels compile in the middle of a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def messy_pairs():
    """Sentence pairs with repeated words, hapaxes and empty sides."""
    return random_pairs(1)


@pytest.fixture(scope="session")
def messy_bitext(messy_pairs):
    return bitext_of(messy_pairs)


@pytest.fixture(scope="session")
def planted():
    """(bitext, links): a permuted copy with an identity lexicon, and the only right alignment."""
    pairs, links = permuted_copy(2)
    return bitext_of(pairs), links
