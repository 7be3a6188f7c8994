"""Files of links, moved to another tokenization."""

from __future__ import annotations

import logging

import pytest

from alignkit.errors import InputError
from alignkit.uses.remapping import remap_files

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


def test_what_does_not_fit(put, texts):
    with pytest.raises(InputError, match=r"links: has links for 2 pairs, the text has 3"):
        remap_files(put("links", "0-0\n\n"), *texts)
    with pytest.raises(InputError, match=r"links, line 3: link 2-0 points outside"):
        remap_files(put("links", "0-0\n\n2-0\n"), *texts)
    with pytest.raises(InputError, match=r"new.x: has 1 line, .*old.x has 3"):
        remap_files(put("links", "0-0\n\n\n"), texts[0], (put("new.x", "a\n"), put("new.y", "a\n")))
