"""Text in: compressed, joined, odd and bad."""

from __future__ import annotations

import gzip
import json

import pytest

from alignkit import align

NO_BREAK = "10\u00a0km a"  # two words


def test_a_no_break_space_is_part_of_its_word_wherever_text_is_read(alignkit, write, tmp_path):
    lines, objects = f"{NO_BREAK} ||| {NO_BREAK}\n" * 3, f'{{"src": "{NO_BREAK}", "tgt": "{NO_BREAK}"}}\n' * 3
    side, model = write("side", f"{NO_BREAK}\n" * 3), tmp_path / "m.npz"
    assert alignkit("ibm1", "-q", side, side, "--save-model", model).code == 0
    texts = [
        [side, side],
        [write("joined", lines)],
        [write("table.tsv", lines.replace(" ||| ", "\t"))],
        [write("table.csv", "src,tgt\n" + lines.replace(" ||| ", ","))],
        [write("text.jsonl", objects)],
        [write("words.jsonl", objects.replace(f'"{NO_BREAK}"', json.dumps(NO_BREAK.split(" "))))],
    ]
    ways = [(text, b"") for text in texts] + [(["-"], lines.encode()), (["-"], objects.encode())]
    for text, given in ways:
        done = alignkit("align", "-q", "--model", model, *text, "--format", "json", stdin=given)
        assert [json.loads(line)["src"] for line in done.lines] == [NO_BREAK.split(" ")] * 3, text
    for sentences in ([NO_BREAK] * 3, [NO_BREAK.split(" ")] * 3):
        assert align(sentences, sentences, model=model).bitext.source.words(0) == NO_BREAK.split(" ")
    links = write("links", "0-0 1-1\n" * 3)
    done = alignkit("remap", side, side, links, "--to", side, side)
    assert done.lines == ["0-0 1-1"] * 3
    assert alignkit("evaluate", links, links, "--text", side, side).code == 0


@pytest.mark.parametrize("command", ["ibm1", "align", "cooc"])
def test_bad_input(alignkit, failure, write, tmp_path, command):
    good = write("good", "a\nb\n")
    out = tmp_path / "out.npz"

    def check(*arguments, parts):
        failure(alignkit(command, *arguments, "-o", out), *parts)
        assert not out.exists()

    check(parts=["SRC"])
    check(good, tmp_path / "absent", parts=["absent", "No such file"])
    check(good, tmp_path, parts=["directory"])
    check(good, write("empty", ""), parts=["empty"])
    check(good, write("short", "a\n"), parts=["2 lines", "1"])
    check(good, write("latin", "a\nb\xe4\n".encode("latin-1")), parts=["latin", "line 2", "UTF-8"])
    check(good, write("cut.gz", gzip.compress(b"a\nb\n" * 1000)[:-9]), parts=["cut.gz", "gzip"])
    check(write("joined", "a ||| b\nc\n"), parts=["joined", "line 2"])
    check("--sample", good, good, parts=["--sample"])
    check("-", "-", parts=["standard input"])
    check(good, good, "--threads", 0, parts=["--threads"])


def test_where_lowercase_does_not_change_links(alignkit, write, tmp_path):
    text, model = (write("s", "Das A\nb DAS\n"), write("t", "The A\nb THE\n")), tmp_path / "m.npz"
    told = "--lowercase does not change the links: this model ignores case\n"
    plain = alignkit("align", *text, "--save-model", model)
    lower = alignkit("align", *text, "--lowercase")
    assert (lower.out, told in lower.err, told in plain.err) == (plain.out, True, False)
    assert told in alignkit("align", *text, "--lowercase", "--model", model).err
    assert told in alignkit("align", "-", "--lowercase", "--model", model, stdin=b"Das ||| The\n").err
    for more in (["align", "--keep-case"], ["ibm1"], ["align", "-q"]):
        assert told not in alignkit(*more, *text, "--lowercase").err
