"""Files of links, moved to another tokenization."""

from __future__ import annotations

import logging
from itertools import pairwise
from random import Random

import pytest

from alignkit.errors import InputError
from alignkit.uses.remapping import _byte_letters, remap_files

OLD = "Er sagt : ja !\n\ndas Haus\n", "he says : yes !\n\nthe house\n"
NEW = "▁Er ▁sag t : ▁ja !\n\n▁das ▁Haus\n", "▁he ▁say s : ▁yes !\n\n▁the ▁house\n"


@pytest.fixture
def put(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture
def texts(put):
    return [tuple(put(f"{name}.{side}", text) for side, text in zip("xy", pair, strict=True)) for name, pair in
            (("old", OLD), ("new", NEW))]  # fmt: skip


def test_another_text(put, texts, caplog):
    links = put("links", "0-0\n\n1-1\n")
    other = texts[1][0], put("new.y", NEW[1].replace("house", "mouse"))
    with pytest.raises(
        InputError, match=r"new.y, line 3: has other characters than .*old.y: 'mouse' where .*'house'"
    ):
        remap_files(links, texts[0], other)
    with caplog.at_level(logging.WARNING, "alignkit"):
        assert remap_files(links, texts[0], other, skip=True).to_strings() == ["0-0", "", ""]
        assert remap_files(
            put("links", "0-0\n\n0-0\n"), texts[0], (texts[0][1], texts[0][1]), skip=True
        ).to_strings() == ["", "", ""]
    assert caplog.messages[0].startswith("1 pair differs and has no links; the first: ")
    assert caplog.messages[0].endswith("new.y, line 3")
    assert caplog.messages[1].startswith("2 pairs differ and have no links; ")


MALTESE = ["Ġorġ", "Ġunju", "il-Ġimgħa", "ġie", "Ħal", "mill-ġnien", "Kristu", "żewġ", "kbar", "#tag", "▁▂▃"]
MARKED = {
    "bpe": lambda parts: [*(f"{part}@@" for part in parts[:-1]), parts[-1]],
    "wordpiece": lambda parts: [parts[0], *(f"##{part}" for part in parts[1:])],
    "sentencepiece": lambda parts: [f"▁{parts[0]}", *parts[1:]],
    "bytes": lambda parts: [f"Ġ{parts[0]}", *parts[1:]],
}


@pytest.mark.parametrize("style", MARKED)
def test_words_that_begin_with_a_mark_of_another_style(put, style):
    letters = {byte: letter for letter, byte in _byte_letters().items()}
    draw, lines, links = Random(1), [], []
    for _ in range(200):
        words = draw.choices(MALTESE[: 10 if style == "sentencepiece" else None], k=5)
        pieces, of_words = [], []
        for i, word in enumerate(words):
            text = "".join(letters[byte] for byte in word.encode()) if style == "bytes" else word
            cuts = sorted({0, *draw.choices(range(1, len(text)), k=2), len(text)})
            marked = MARKED[style]([text[a:b] for a, b in pairwise(cuts)])
            pieces += marked
            of_words += [i] * len(marked)
        lines.append((" ".join(words), " ".join(pieces)))
        links.append(" ".join(f"{j}-0" for j, i in enumerate(of_words) if i % 2 == 0))
    old, new = (put(f"text{i}", "\n".join(side) + "\n") for i, side in enumerate(zip(*lines, strict=True)))
    other = put("other", "x\n" * 200)
    given = put("links", "0-0 2-0 4-0\n" * 200)
    assert remap_files(given, (old, other), (new, other)).to_strings() == links


def test_what_differs_is_shown_without_the_marks_of_the_file(put):
    other, given = put("other", "x\n" * 2), put("links", "\n\n")
    old, new = put("old", "Ġorġ ġie\nja ▁▂▃\n"), put("new", "Ġo@@ rġ ġi@@ da\nj@@ a ▁▂▃\n")
    with pytest.raises(
        InputError, match=r"new, line 1: .* 'da' where the old one has 'e' \(read as bpe, the old one"
    ):
        remap_files(given, (old, other), (new, other))


def test_what_does_not_fit(put, texts):
    with pytest.raises(InputError, match=r"links: has links for 2 pairs, the text has 3"):
        remap_files(put("links", "0-0\n\n"), *texts)
    with pytest.raises(InputError, match=r"links, line 3: link 2-0 points outside"):
        remap_files(put("links", "0-0\n\n2-0\n"), *texts)
    with pytest.raises(InputError, match=r"new.x: has 1 line, .*old.x has 3"):
        remap_files(put("links", "0-0\n\n\n"), texts[0], (put("new.x", "a\n"), put("new.y", "a\n")))
