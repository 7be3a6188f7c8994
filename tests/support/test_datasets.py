"""Downloads from a server on this machine: whole or absent, checked."""

from __future__ import annotations

import hashlib
import re
import socket
from pathlib import Path
from urllib.request import Request

import numpy as np
import pytest

from alignkit.errors import AlignkitError, find_known
from alignkit.support.datasets import DATA_SETS, SUMS, DataSet, RemoteFile, _Redirects, fetch
from tests.support.server import Server

CONTENT = np.random.default_rng(0).bytes(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    found = Server()
    found.files = {"a": CONTENT, "b": b"beta"}
    yield found
    found.close()


def data_set(server, **known):
    return DataSet("d", "a title", "free", (RemoteFile("a.bin", server.url("a"), **known),))


KNOWN = {"size": len(CONTENT), "sha256": DIGEST}


def test_files_come_whole_and_are_not_asked_for_again(server, tmp_path):
    both = DataSet("d", "", "", (RemoteFile("b.txt", server.url("b")), *data_set(server, **KNOWN).files))
    folder = tmp_path / "new" / "folder"
    calls = []
    paths = fetch(both, folder, lambda *now: calls.append(now))
    assert [path.read_bytes() for path in paths] == [b"beta", CONTENT]
    assert calls[0] == (4, 4, "b.txt")
    assert calls[-1] == (len(CONTENT), len(CONTENT), "a.bin")
    assert (folder / SUMS).read_text() == f"{DIGEST}  a.bin\n{hashlib.sha256(b'beta').hexdigest()}  b.txt\n"
    assert sorted(path.name for path in folder.iterdir()) == [SUMS, "a.bin", "b.txt"]
    assert fetch(both, folder) == paths
    assert len(server.asked) == 2


@pytest.mark.parametrize("known", [KNOWN, {}])
def test_a_broken_download_leaves_nothing(server, tmp_path, known):
    server.stop_after = 100_000
    with pytest.raises(AlignkitError, match=r"the connection broke after 100,000 of 300,000 bytes"):
        fetch(data_set(server, **known), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fetch(data_set(server, **known), tmp_path)[0].read_bytes() == CONTENT


def test_a_server_that_says_no_length(server, tmp_path):
    server.says_length, calls = False, []
    assert fetch(data_set(server), tmp_path, lambda *now: calls.append(now))[0].read_bytes() == CONTENT
    assert calls
    assert all(total == done for done, total, _ in calls)
    server.stop_after = 10
    with pytest.raises(AlignkitError, match="broke after 10 of"):
        fetch(data_set(server, **KNOWN), tmp_path / "other")


def test_another_content_is_refused(server, tmp_path):
    with pytest.raises(AlignkitError, match=f"has SHA-256 {DIGEST}, expected 0000"):
        fetch(data_set(server, sha256="0" * 64), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("known", [KNOWN, {}])
def test_a_file_of_that_name_is_not_overwritten(server, tmp_path, known):
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(AlignkitError, match="move it away"):
        fetch(data_set(server, **known), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"mine"
    assert server.asked == []


def test_a_file_that_changed_is_noticed(server, tmp_path):
    (path,) = fetch(data_set(server), tmp_path)
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(AlignkitError, match="with another content"):
        fetch(data_set(server), tmp_path)


def test_no_network_is_one_line(tmp_path):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        files = (RemoteFile("a", f"http://127.0.0.1:{taken.getsockname()[1]}/a"),)
        with pytest.raises(AlignkitError, match=r"/a: cannot be downloaded .*refused") as caught:
            fetch(DataSet("d", "", "", files), tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(AlignkitError, match=r"no-such-host\.invalid/a: cannot be downloaded"):
        fetch(DataSet("d", "", "", (RemoteFile("a", "https://no-such-host.invalid/a"),)), tmp_path)


def test_an_answer_that_is_none(server, tmp_path):
    with pytest.raises(AlignkitError, match=r"cannot be downloaded .Not Found"):
        fetch(DataSet("d", "", "", (RemoteFile("c", server.url("c")),)), tmp_path)
    server.redirects["r"] = server.url("b")
    moved = DataSet("d", "", "", (RemoteFile("b", server.url("r")),))
    assert fetch(moved, tmp_path)[0].read_bytes() == b"beta"


def test_a_folder_that_cannot_be(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AlignkitError, match="cannot make the folder"):
        fetch(data_set(server), tmp_path / "file")


@pytest.mark.parametrize("said", [True, False])
def test_what_is_larger_than_it_should_be_is_not_taken(server, tmp_path, said):
    server.says_length = said
    for size in (100_000, 299_999):
        with pytest.raises(AlignkitError, match=rf"/a: is larger than {size:,} bytes; nothing was kept"):
            fetch(data_set(server, size=size, sha256=DIGEST), tmp_path)
    server.says_length, server.length = True, str(10**12)
    with pytest.raises(AlignkitError, match="is larger than 268,435,456 bytes"):
        fetch(data_set(server), tmp_path / "other")
    assert list(tmp_path.glob("*.bin")) == []


@pytest.mark.parametrize(
    ("place", "problem"),
    [("ftp://127.0.0.1:1/a", "leads to ftp://127.0.0.1:1/a, which is"), ("http://[", "cannot be downloaded")],
)
def test_a_server_that_leads_elsewhere(server, tmp_path, place, problem):
    server.redirects["r"] = place
    moved = DataSet("d", "", "", (RemoteFile("b", server.url("r")),))
    with pytest.raises(AlignkitError, match=problem):
        fetch(moved, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_encryption_is_not_given_up():
    asked = Request("https://example.org/a")
    with pytest.raises(AlignkitError, match=r"leads to http://example.org/b, which is not encrypted"):
        _Redirects().redirect_request(asked, None, 302, "Found", {}, "http://example.org/b")
    assert _Redirects().redirect_request(asked, None, 302, "Found", {}, "https://a.org/b").host == "a.org"


def test_the_catalogue():
    """Every address is encrypted and names a commit; names are unique; a known checksum comes with its size."""
    described = (Path(__file__).parents[2] / "docs" / "data-sets.md").read_text("utf-8")
    for name, data in DATA_SETS.items():
        assert name == data.name
        assert f"`{name}`" in described
        assert data.title
        assert data.licence
        names = [each.name for each in data.files]
        assert len(set(names)) == len(names) > 0
        for each in data.files:
            assert each.url.startswith("https://")
            assert " " not in each.url
            assert "/" not in each.name
            assert re.search(r"/[0-9a-f]{40}(/|\.zip$)", each.url)
            assert (each.sha256 is None) == (each.size is None)
            assert each.sha256 is None or len(bytes.fromhex(each.sha256)) == 32
    assert find_known("multi30k", DATA_SETS, "data set") is DATA_SETS["multi30k"]
    with pytest.raises(AlignkitError, match="unknown data set 'x'; choose from multi30k"):
        find_known("x", DATA_SETS, "data set")
