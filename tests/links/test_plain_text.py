"""The fast reader of Pharaoh lines says what the parser says, or nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError, InputError
from alignkit.links import gold
from alignkit.links.gold import read_links, read_plain_links
from alignkit.links.links import Links, parse_links
from alignkit.text.reading import split_lines

pieces = st.sampled_from([*"0123456789--  \n\n\t\rp", "10-2", "3-4 ", "123456789-0"])


@given(st.lists(pieces, max_size=30).map("".join), st.sampled_from([1, 7, 1 << 24]))
@example("0\t0-1\n1\t", 7)
@settings(max_examples=200, deadline=None)
def test_what_is_read_is_what_the_parser_reads(text, chunk):
    """In parts of at most so many bytes, or of one longer line; a line without an end is a part."""
    parts, read_part = [], gold._links_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gold, "CHUNK", chunk)
        patch.setattr(gold, "_links_of", lambda part: parts.append(part.tobytes()) or read_part(part))
        found = read_plain_links(text.encode())
    try:
        wanted = parse_links("x", split_lines(text.encode())).possible
    except InputError:
        assert found is None
        return
    if found is None:
        # A possible link, numbers too large, or the numbers of lines that simalign writes.
        assert "p" in text or "9-0" in text or re.match(r"0*[01]\t", text)
    else:
        expected = []
        for line in re.findall("[^\n]*\n|[^\n]+", text):
            if expected and line[-1] == "\n" and len(expected[-1] + line) <= chunk:
                expected[-1] += line
            else:
                expected.append(line)
        assert b"".join(parts) == text.encode()
        assert list(map(len, parts)) == list(map(len, expected))
        assert np.array_equal(found.pairs, wanted.pairs)
        assert np.array_equal(found.offsets, wanted.offsets)


@pytest.mark.parametrize(
    "text", ["0-0 1", "0-0-1", "-1", "1-", "0 - 0", "0-0 1-1 2 3-3", "1234567890-1", "0-0:0.5"]
)
def test_what_is_not_plain_is_left_to_the_parser(text):
    assert read_plain_links(text.encode()) is None


def test_files_of_any_kind(tmp_path):
    place = tmp_path / "links"
    links = Links.from_lists([[(3, 1), (0, 12)], [], [(1, 1)] * 2])
    for text in (links.to_pharaoh(), b"3-1\t0-12\r\n\r\n1-1 1-1", b"3-1:0.25 0p12\n\n1?1\n"):
        place.write_bytes(text)
        assert read_links(place).to_strings() == links.to_strings()
    place.write_text("0-0\n")
    assert read_links(place, base=0).to_strings() == ["0-0"]
    with pytest.raises(InputError, match="line 1: index 0 in links that count from 1; give --hyp-base 0,"):
        read_links(place, base=1)
    with pytest.raises(AlignkitError, match="unknown base '2'; choose from auto, 0, 1"):
        read_links(place, base=2)
    place.write_text("0-0\n0-0-0\n")
    with pytest.raises(InputError, match="links, line 2: '0-0-0' is not a link"):
        read_links(place)
