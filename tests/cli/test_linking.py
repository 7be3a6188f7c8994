"""What decides the links of a text that comes without: the same options in every command that needs links."""

from __future__ import annotations

import pytest

PRIOR = "a\tx\t1\nb\ty\t1\nc\tz\t1\n"
#: What each command prints of the words a, b and c where a is linked to x, b to y and c to z.
LINKED = {
    "show": "a\u2013x b\u2013y c\u2013z",
    "gold": '"links":[[0,2],[1,1],[2,0]]',
    "phrases": "a ||| x |||",
    "project": "z y <i>x</i>",
}


@pytest.fixture
def lines(alignkit, write):
    """What a command says of a pair whose words stand in the opposite order in its target."""
    files = write("plain", "a b c\n"), write("tagged", "<i>a</i> b c\n"), write("target", "z y x\n")

    def call(command: str, *options: object) -> str:
        more = ["--words"] if command == "show" else []
        outcome = alignkit(command, files[command == "project"], files[2], "-q", *more, *options)
        assert outcome.code == 0, outcome.err
        return outcome.out.decode()

    return call


@pytest.mark.parametrize("command", LINKED)
def test_every_option_that_decides_links(lines, alignkit, write, tmp_path, command):
    assert LINKED[command] not in lines(command)  # one pair tells nothing but its order
    assert LINKED[command] in lines(command, "--prior", write("lexicon", PRIOR))
    vectors = (
        write("vectors", "3 3\na 1 0 0\nb 0 1 0\nc 0 0 1\n"),
        write("others", "3 3\nx 1 0 0\ny 0 1 0\nz 0 0 1\n"),
    )
    assert LINKED[command] in lines(command, "--embeddings", f"{vectors[0]},{vectors[1]}")
    text = write("s", "a\nb\nc\na b\nb c\n" * 3), write("t", "x\ny\nz\ny x\nz y\n" * 3)
    assert alignkit("ibm1", *text, "--save-model", tmp_path / "m.npz", "-q").code == 0
    assert LINKED[command] in lines(command, "--model", tmp_path / "m.npz")


@pytest.mark.parametrize("command", [*LINKED, "terms"])
def test_links_that_are_given_are_not_decided(alignkit, failure, text, write, command):
    links = write("links", "0-0\n" * 6)
    for name in ("model", "prior", "gold", "embeddings"):
        failure(alignkit(command, *text, links, f"--{name}", links), f"Give LINKS or --{name}, not both.")
