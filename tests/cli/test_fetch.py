"""alignkit fetch: what is shown, errors."""

from __future__ import annotations

import hashlib

import pytest

import alignkit_data
from alignkit.support.datasets import DATA_SETS, DataSet, RemoteFile
from tests.support.server import Server


@pytest.fixture
def server(monkeypatch):
    found = Server()
    found.files = {"a": b"alpha", "b": b"beta"}
    digest = hashlib.sha256(b"alpha").hexdigest()
    files = (RemoteFile("a.txt", found.url("a"), 5, digest), RemoteFile("b.txt", found.url("b")))
    monkeypatch.setitem(DATA_SETS, "tiny", DataSet("tiny", "two words", "free to use", files, "a remark"))
    yield found
    found.close()


def test_names_alone(alignkit):
    outcome = alignkit("fetch")
    assert [line.split()[0] for line in outcome.lines] == ["sample", *DATA_SETS]
    assert alignkit("fetch", "-o", "x").code == 2


def test_the_sample_is_copied(alignkit, tmp_path):
    assert alignkit("fetch", "sample", "-q", "-o", tmp_path / "s").err == ""
    names = {name: name.replace("train.", "corpus.") for name in alignkit_data.FILES}
    assert {path.name for path in (tmp_path / "s").iterdir()} == {*names.values()}
    for name, copy in names.items():
        assert (tmp_path / "s" / copy).read_bytes() == alignkit_data.path(name).read_bytes()


def test_the_sample_replaces_no_file_of_the_users(alignkit, failure, tmp_path):
    (tmp_path / "corpus.en").write_text("mine\n")
    failure(alignkit("fetch", "sample", "-o", tmp_path), "corpus.en: is there already and is not the sample's")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.en"]
    assert (tmp_path / "corpus.en").read_text() == "mine\n"


def test_terms_are_shown(alignkit, server, tmp_path):
    outcome = alignkit("fetch", "tiny", "-o", tmp_path / "t")
    assert (outcome.code, outcome.out) == (0, b"")
    digest = hashlib.sha256(b"alpha").hexdigest()
    for part in ("two words", "free to use", "a remark", server.url("a"), "5 bytes", digest):
        assert part in outcome.err
    assert "size unknown, SHA-256 unknown" in outcome.err
    assert outcome.err.endswith("2 files, their SHA-256 in SHA256SUMS\n")
    assert [(tmp_path / "t" / name).read_text() for name in ("a.txt", "b.txt")] == ["alpha", "beta"]
    again = alignkit("fetch", "tiny", "-o", tmp_path / "t", "-q")
    assert (again.code, again.err) == (0, "")
    assert len(server.asked) == 2


def test_failures(alignkit, server, failure, tmp_path):
    failure(alignkit("fetch", "nothing"), "unknown data set", "multi30k")
    server.close()
    failure(alignkit("fetch", "tiny", "-o", tmp_path / "t", "-q"), "cannot be downloaded")
