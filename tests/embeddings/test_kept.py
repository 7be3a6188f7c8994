"""Levels that were found before are found again, and no folder or file can break the program."""

from __future__ import annotations

import os

import numpy as np
import pytest
from planted import bitext_of

from alignkit.embeddings import kept
from alignkit.embeddings.kept import KeptLevels
from alignkit.embeddings.levels import Embeddings


class Counting:
    """Embeddings that count how often they are asked."""

    def __init__(self):
        self.calls = 0

    def levels(self, bitext, threads, progress=None):
        self.calls += 1
        return np.arange(int(bitext.shapes.prod(axis=1).sum()), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_CACHE", str(tmp_path))
    monkeypatch.delenv(kept.SWITCH, raising=False)
    return tmp_path / "embeddings"


TEXT, OTHER = bitext_of([(["a", "b"], ["c"])]), bitext_of([(["a", "ab"], ["c"])])


def asked(about="one", *texts):
    """How often the encoder is asked for these texts, one after another."""
    inner = Counting()
    found = KeptLevels(inner, about)
    assert isinstance(found, Embeddings)
    for text in texts or (TEXT,):
        levels = found.levels(text, 1)
        assert levels.tolist() == [0, 1]
        assert levels.flags.writeable
    return inner.calls


def test_a_text_is_encoded_once(folder):
    assert [asked(), asked(), asked("one", TEXT, OTHER, OTHER), asked("another")] == [1, 0, 1, 1]
    assert len(list(folder.glob("*.kept"))) == 3


def test_it_can_be_switched_off(folder, monkeypatch):
    monkeypatch.setenv(kept.SWITCH, "0")
    assert [asked(), asked()] == [1, 1]
    assert not folder.exists()


def test_damaged_files_and_folders_only_cost_time(folder, monkeypatch, tmp_path):
    asked()
    (place,) = folder.glob("*.kept")
    whole = place.read_bytes()
    for content in (b"", whole[:-1], bytes(len(whole))):
        place.write_bytes(content)
        assert [asked(), asked()] == [1, 0]
    monkeypatch.setenv("ALIGNKIT_CACHE", str(place))  # a file
    assert [asked(), asked()] == [1, 1]


def test_the_last_used_stay(folder, monkeypatch):
    asked("old")
    asked("new")
    for n, path in enumerate(sorted(folder.glob("*.kept"), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (n, n))
    assert asked("old") == 0  # used now
    monkeypatch.setattr(kept, "MOST", 80)  # two files of 34 bytes
    assert asked("third") == 1
    assert [asked("old"), asked("third"), asked("new")] == [0, 0, 1]
