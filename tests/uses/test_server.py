"""The server: what aligners say, over HTTP, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread, get_ident

import pytest

import alignkit

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn, of the extra serve, is not installed")
server = pytest.importorskip("alignkit.uses.server", reason="fastapi, of the extra serve, is not installed")


@pytest.fixture(scope="module")
def models():
    bitext = alignkit.sample().bitext.block(0, 80)
    return {"hmm": alignkit.fit_hmm(bitext, threads=1), "ibm1": alignkit.fit_ibm1(bitext, threads=1)}


@contextmanager
def running(*arguments, **options):
    """The address of a server of an application with these arguments."""
    app = server.application(*arguments, **options)
    served = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=served.run, args=([listener],))
    thread.start()
    while not served.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    served.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def address(models):
    with running(models, hosts=server.LOCAL) as address:
        yield address


def ask(address, place, body=None, **headers):
    """(status, what the server says)."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/{place}", data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_links_are_those_of_the_model(address, models):
    source, target = ["das Haus", "", "Das ist ein Buch ."], ["the house", "x", "a book is This ."]
    for name in (None, "ibm1"):
        status, pairs = ask(address, "align", {"source": source, "target": target, "model": name})
        assert status == 200
        model = models[name or "hmm"]
        bitext = alignkit.Bitext.from_sentences(*([line.split() for line in side] for side in (source, target)))
        links, probabilities = model.links_and_probabilities(bitext)
        assert [pair["source"] for pair in pairs] == [line.split() for line in source]
        assert [pair["target"] for pair in pairs] == [line.split() for line in target]
        assert [[link[:2] for link in pair["links"]] for pair in pairs] == [links[m].tolist() for m in range(3)]
        found = [link[2] for pair in pairs for link in pair["links"]]
        assert found == [float(f"{p:.4g}") for p in probabilities]
    one = ask(address, "align", {"source": source[2], "target": target[2], "model": "ibm1"})
    assert one == (200, pairs[2:])
    assert ask(address, "models") == (200, {"hmm": "hmm", "ibm1": "ibm1"})


def test_improbable_links_keep_four_digits():
    text = alignkit.sample().bitext.block(0, 40)
    model = alignkit.align(text, embeddings="none", threads=1).aligner.with_threshold(0.0)
    pair = {"source": " ".join(text.source.words(0)), "target": " ".join(text.target.words(0))}
    with running({"all": model}, hosts=server.LOCAL) as address:
        _, (answer,) = ask(address, "align", pair)
    found = [link[2] for link in answer["links"]]
    assert found == [float(f"{p:.4g}") for p in model.links_and_probabilities(text.block(0, 1))[1]]
    assert any(0 < p < 0.09 for p in found)


def test_tags_are_put_into_the_translation(address):
    text = {"source": "Das ist <b>ein Buch</b> {0}.", "target": "This is a book .", "model": "ibm1"}
    status, found = ask(address, "project", text)
    assert status == 200
    assert re.sub(r"</?b>|\{0\}", "", found["target"][0]) == "This is a book ."
    assert found["unplaced"] == []
    split = text | {"target": "This a is book .", "rule": "unsplit"}
    assert ask(address, "project", split)[1]["unplaced"][0]["tag"] == "<b>"
    _, found = ask(address, "project", text | {"least": 1})
    assert found["unplaced"] == [{"line": 1, "tag": "<b>", "text": "ein Buch"}]
    assert "closed" in ask(address, "project", text | {"source": "<b>das"})[1]


def test_a_model_of_raw_text_splits_it():
    """Words without counterpart and scores are those of the library; there is a score of each direction."""
    pytest.importorskip("icu4py", reason="icu4py, of the extra text, is not installed")
    raw = replace(alignkit.fit_joint(alignkit.sample().bitext.block(0, 80), threads=1), raw_text=True)
    source, target = ["Das Haus ist klein.", ""], ["The house.", "x"]
    aligned = alignkit.align(source, target, model=raw, threads=1)
    with running({"raw": raw}) as address:
        text = {"source": source, "target": target}
        pairs, omissions, scores = (ask(address, place, text)[1] for place in ("align", "omissions", "score"))
    assert pairs[0]["target"] == aligned.bitext.target.words(0) == ["The", "house", "."]
    assert omissions == [aligned.coverage(m).as_record() for m in range(2)]
    assert scores == [pytest.approx(aligned.sentence_scores[0]), [None, None]]


def test_eight_clients_at_once_get_their_own_answers(address):
    texts = [{"source": f"das Buch {n}", "target": f"the book {n}"} for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: ask(address, "align", text), texts))
    assert [pairs[0]["source"][2] for _, pairs in answers] == [str(n) for n in range(40)]
    assert answers == [ask(address, "align", text) for text in texts]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"source": "a", "target": ["b", "c"]}, 400, "source has 1 sentence, target has 2"),
        ({"source": "a \ud83d", "target": "b"}, 400, "half a character"),
        ({"source": "a", "target": "b", "model": "none"}, 404, "there is no model 'none'; choose from hmm, ibm1"),
        ({"source": "a", "target": "b", "path": "/etc/passwd"}, 422, "path: Extra inputs are not permitted"),
        ({"source": "a"}, 422, "target: Field required"),
        ({"source": 5, "target": "b"}, 422, "source: Input should be a valid string"),
        ([1], 422, "valid dictionary"),
        (b"{", 422, "the request is not JSON"),
    ],
)
def test_what_is_refused(address, body, status, message):
    code, text = ask(address, "align", body)
    assert code == status
    assert message in json.loads(text)["error"]
    assert ask(address, "aline", body) == (404, '{"error":"Not Found; see /docs"}')


def test_who_may_ask(models, address):
    assert ask(address, "models", Host="evil.example")[0] == 400
    with running(models, token="secret") as closed:
        for given in ({}, {"Authorization": "Bearer secre"}, {"Authorization": "secret"}):
            assert ask(closed, "models", **given)[0] == 401
        assert ask(closed, "models", Authorization="Bearer secret")[0] == 200


@pytest.mark.parametrize(
    ("header", "status", "message"),
    [
        ("Transfer-Encoding: chunked", 411, "is not known"),
        ("Content-Length: 2000000", 413, "may have 1,048,576 bytes"),
    ],
)
def test_a_body_that_is_too_long_is_not_read(address, header, status, message):
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"POST /align HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
        answer = ""
        while "}" not in answer:
            answer += connection.recv(1000).decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert message in answer


def test_a_body_may_be_as_long_as_is_said(models):
    body = json.dumps({"source": "das", "target": "the"}).encode()
    for most, status in ((len(body), 200), (len(body) - 1, 413)):
        with running(models, most_bytes=most) as address:
            assert ask(address, "align", body)[0] == status


@pytest.mark.parametrize(
    ("most", "pairs", "length"), [(64, 1, 1), (64, 1, 20), (64, 1, 2000), (64, 200, 0), (1, 1, 1)]
)
def test_texts_that_come_together_are_answered_together(most, pairs, length):
    """Much work, and that of networks, is done in a thread; an error is that of its text alone."""
    asked, threads = [], set()

    def answer(texts):
        asked.append(len(texts))
        threads.add(get_ident())
        return [1 / int(source[0]) for source, _ in texts]

    async def ask_all(numbers):
        texts = (([str(n)] * pairs, ["x" * length] * pairs) for n in numbers)
        return await asyncio.gather(*map(gathered, texts), return_exceptions=True)

    gathered = server.Gathered(answer, most)
    assert asyncio.run(ask_all([1, 2, 4])) == [1, 0.5, 0.25]
    assert asked == ([3] if most > 1 else [1, 1, 1])
    assert (threads == {get_ident()}) == (most > 1 and pairs * length in (1, 20))
    first, second, third = asyncio.run(ask_all([2, 0, 4]))
    assert (first, type(second), third) == (0.5, ZeroDivisionError, 0.25)


def test_what_nobody_waits_for_is_not_computed():
    asked = []

    def answer(texts):
        asked.append([source[0] for source, _ in texts])
        time.sleep(0.2)
        return asked[-1]

    async def ask_all():
        long = ["x" * 10_000]
        first = asyncio.create_task(gathered((["first"], long)))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(gathered(([name], long))) for name in ("gone", "second")]
        await asyncio.sleep(0.05)
        others[0].cancel()
        return await first, await others[1]

    gathered = server.Gathered(answer, 64)
    assert asyncio.run(ask_all()) == ("first", "second")
    assert asked == [["first"], ["second"]]
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(gathered((["late"], ["x" * 10_000])), 0.05))
    assert asyncio.run(ask_all()) == ("first", "second")


def test_texts_of_an_aligner_that_depends_on_its_batch_are_answered_alone(models):
    class Network(type(models["ibm1"])):
        depends_on_batch = True

    network = Network(**{name: getattr(models["ibm1"], name) for name in models["ibm1"].__getstate__()})
    for aligner, most in ((network, 1), (models["ibm1"], 64)):
        served = server.Served(aligner)
        assert (served.align.most, served.linked.most, aligner._combined.most) == (most, most, most)


def test_a_request_has_a_longest_time(models):
    class Slow(type(models["ibm1"])):
        def links_and_probabilities(self, bitext):
            time.sleep(1)
            return super().links_and_probabilities(bitext)

    slow = Slow(**{name: getattr(models["ibm1"], name) for name in models["ibm1"].__getstate__()})
    with running({"slow": slow}, most_seconds=0.05) as address:
        status, text = ask(address, "align", {"source": "a " * 5000, "target": "b"})
    assert (status, json.loads(text)["error"]) == (503, "took longer than 0.05 seconds; send fewer pairs")


def test_the_command_listens_until_it_is_told_to_end(models, tmp_path):
    models["hmm"].save(tmp_path / "de-en.npz")
    (tmp_path / "token").write_text("secret\n")
    command = [sys.executable, "-m", "alignkit", "serve", "de-en.npz", "--port", "0", "--token-file", "token"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ})
    line = process.stderr.readline()
    found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+), models: de-en\n", line)
    assert found, line + process.stderr.read()
    answer = ask(found[1], "align", {"source": "das", "target": "the"}, Authorization="Bearer secret")
    assert answer[1][0]["source"] == ["das"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert process.stderr.read() == ""


def test_where_the_command_does_not_listen(models, tmp_path, monkeypatch, capfd):
    from alignkit_cli.main import run

    models["ibm1"].save(tmp_path / "m.npz")
    (tmp_path / "other").mkdir()
    models["ibm1"].save(tmp_path / "other" / "m.npz")
    (tmp_path / "empty").write_text("\n")
    monkeypatch.chdir(tmp_path)
    taken = socket.create_server(("127.0.0.1", 0))
    calls = {
        ("m.npz", "--host", "0.0.0.0"): "--host 0.0.0.0 can be reached by other machines; give --token-file, too",
        ("m.npz", "--host", "example.org"): "can be reached by other machines",
        ("m.npz", "--token-file", "empty"): "empty: has no token",
        ("m.npz", "other/m.npz"): "Two models have the name 'm'",
        ("m.npz", "--port", str(taken.getsockname()[1])): "Address already in use",
        (): "Missing argument 'MODEL...'",
    }
    for arguments, message in calls.items():
        assert run(["serve", *arguments]) == 2
        assert message in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run(["serve", "m.npz"]) == 2
    assert "servers need fastapi, which is not installed: pip install" in capfd.readouterr().err
