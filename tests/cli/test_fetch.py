"""alignkit fetch: what is shown, consent, errors."""

from __future__ import annotations

import hashlib

import pytest

from alignkit.datasets.catalogue import DATA_SETS, DataSet, RemoteFile
from tests.datasets.server import Server


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
    assert [line.split()[0] for line in outcome.lines] == list(DATA_SETS)
    assert alignkit("fetch", "--yes").code == 2


def test_terms_are_shown_before_anything_is_asked_for(alignkit, server, failure, tmp_path):
    """Without a terminal and --yes nothing is downloaded."""
    outcome = alignkit("fetch", "tiny", "-o", tmp_path / "t")
    assert outcome.code == 2
    shown, _, error = outcome.err.rstrip("\n").rpartition("\n")
    for part in (
        "two words",
        "free to use",
        "a remark",
        server.url("a"),
        "5 bytes",
        hashlib.sha256(b"alpha").hexdigest(),
    ):
        assert part in shown
    assert "size not known, SHA-256 not known" in shown
    assert "--yes" in error
    assert server.asked == []
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_consent(alignkit, server, monkeypatch, tmp_path, answer, code):
    monkeypatch.setattr("alignkit_cli.fetch.can_ask", lambda: True)
    outcome = alignkit("fetch", "tiny", "-o", tmp_path / "t", stdin=f"{answer}\n".encode())
    assert outcome.code == code
    assert outcome.out == b""
    assert "Download to" in outcome.err
    assert len(server.asked) == (2 if code == 0 else 0)


def test_yes(alignkit, server, tmp_path):
    outcome = alignkit("fetch", "tiny", "-o", tmp_path / "t", "--yes")
    assert (outcome.code, outcome.out) == (0, b"")
    assert outcome.err.endswith("2 files, their SHA-256 in SHA256SUMS\n")
    assert [(tmp_path / "t" / name).read_text() for name in ("a.txt", "b.txt")] == ["alpha", "beta"]
    again = alignkit("fetch", "tiny", "-o", tmp_path / "t")  # nothing to ask
    assert again.code == 0
    assert again.err.count("\n") == 1
    assert alignkit("fetch", "tiny", "-o", tmp_path / "u", "--yes", "-q").err == ""


def test_failures(alignkit, server, failure, tmp_path):
    failure(alignkit("fetch", "nothing"), "there is no data set", "multi30k")
    server.close()
    failure(alignkit("fetch", "tiny", "-o", tmp_path / "t", "-y", "-q"), "no network: 127.0.0.1 cannot be reached")
