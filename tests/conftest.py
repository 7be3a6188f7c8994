"""Settings of all tests, and fixtures that several folders share."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.kernels import compile as kernel_compilation
from alignkit.pipeline import models
from alignkit.support import stages

# Test processes side by side (pytest -n) have a core each: threads on the cores of the others would wait, and burn
# time at it. A test that needs several threads says so.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % len(cores)]})

gc.disable()  # until all tests are collected
os.fsync = lambda _: None  # no test survives a power cut

# Whether kernels are compiled depends on what ran before; lines about work that takes long would come in any test.
kernel_compilation.PATIENCE = stages.FIRST = 1e6

# All texts of tests are small: those get embeddings where a test asks for them.
models.READ_TEXT = 0

# A busy machine draws examples slowly, and kernels compile in the middle of a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """``pytest -n auto``: a process for each core, but each takes half a gigabyte, and more than 8 gain little."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)


def pytest_collection_finish():
    """Leave the half million objects of tests and libraries out of garbage collections."""
    gc.freeze()
    gc.enable()


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


@pytest.fixture
def set_blocks(monkeypatch):
    """Let texts be linked in blocks of other sizes: of so many pairs, or of so many elements."""

    from alignkit.pipeline import align, aligned_text, models

    def set_sizes(**sizes):
        for name, size in sizes.items():
            for module in (aligned_text, models, align):
                monkeypatch.setattr(module, name, size, raising=False)

    return set_sizes
