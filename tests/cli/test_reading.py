"""Text in: compressed, joined, odd and bad."""

from __future__ import annotations

import gzip

import pytest


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
