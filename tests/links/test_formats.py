"""Output formats: a fixed number of lines for every sentence pair."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.links.formats import (
    OUTPUT_FORMATS,
    Alignment,
    exponential,
    giza,
    json_lines,
    render,
    sentence_score_lines,
    with_probabilities,
)
from alignkit.links.links import Links, parse_links
from alignkit.text.pairs import read_line_pairs

LINKS = Links.from_lists([[(0, 0), (0, 2), (2, 1)], [], [(1, 0), (0, 0)]])
SOURCE = [["das", "ist", "gut"], [], ["a", "b"]]
TARGET = [["this", "good", "is", "!"], ["nothing"], ["c"]]
SPANS = [
    ([(0, 3), (4, 7), (9, 12)], [(0, 4), (5, 9), (10, 12), (12, 13)]),
    ([], [(0, 7)]),
    ([(0, 1), (2, 3)], [(1, 2)]),
]
WHOLE = Alignment(
    LINKS, SOURCE, TARGET, np.array([0.5, 1, 1 / 3, 1e-05, 0.99999]), np.array([[-1.0], [math.nan], [-2.5]])
)


def test_probabilities():
    text = with_probabilities(WHOLE)
    assert text == b"0-0:0.5 0-2:1 2-1:0.3333\n\n0-0:1e-05 1-0:1\n"
    again = parse_links("x", text.decode().splitlines()).sure
    assert again.pairs.tolist() == LINKS.pairs.tolist()


def test_json_lines_can_be_read_as_a_text(tmp_path):
    text = json_lines(WHOLE)
    first, second, _ = map(json.loads, text.decode().splitlines())
    links = [[0, 0, 0.5], [0, 2, 1.0], [2, 1, 0.3333]]
    assert first == {"src": SOURCE[0], "tgt": TARGET[0], "links": links, "scores": [-1]}
    assert second == {"src": [], "tgt": ["nothing"], "links": [], "scores": [None]}
    (tmp_path / "x").write_bytes(text)
    assert read_line_pairs(tmp_path / "x").target == [" ".join(words) for words in TARGET]


def test_characters_of_raw_text():
    whole = replace(WHOLE, spans=SPANS)
    assert render(whole, "offsets") == b"0:3-0:4 0:3-10:12 9:12-5:9\n\n0:1-1:2 2:3-1:2\n"
    first = json.loads(json_lines(whole).decode().splitlines()[0])
    assert first["src_offsets"] == [[0, 3], [4, 7], [9, 12]]
    assert first["tgt_offsets"] == [[0, 4], [5, 9], [10, 12], [12, 13]]
    assert [first["src_offsets"][s] for s, _, _ in first["links"]] == [[0, 3], [0, 3], [9, 12]]


def test_json_lines_keep_ids():
    ids = [5, None, {"\ud83d": "\u00e4\x85\u2028\u2029"}]  # each on one line
    found = [json.loads(line) for line in json_lines(replace(WHOLE, ids=ids)).decode().splitlines()]
    assert [next(iter(each)) for each in found] == ["id", "src", "id"]
    assert [each.get("id") for each in found] == ids


def test_giza():
    assert giza(WHOLE, first=7).decode().splitlines() == [
        f"# Sentence pair (7) source length 3 target length 4 alignment score : {exponential(-4.0)}",
        "this good is !",
        "NULL ({ 4 }) das ({ 1 3 }) ist ({ }) gut ({ 2 })",
        "# Sentence pair (8) source length 0 target length 1 alignment score : 0",
        "nothing",
        "NULL ({ 1 })",
        f"# Sentence pair (9) source length 2 target length 1 alignment score : {exponential(-2.5)}",
        "c",
        "NULL ({ }) a ({ 1 }) b ({ 1 })",
    ]


def test_giza_of_a_reverse_model_is_that_of_the_exchanged_text():
    scores = np.array([[-1.0], [math.nan], [-2.5]])
    reverse = Alignment(LINKS, SOURCE, TARGET, sentence_scores=scores, is_reverse=True)
    assert giza(reverse) == giza(Alignment(LINKS.reversed, TARGET, SOURCE, sentence_scores=scores))
    assert giza(reverse).decode().splitlines()[:3] == [
        f"# Sentence pair (1) source length 4 target length 3 alignment score : {exponential(-3.0)}",
        "das ist gut",
        "NULL ({ 2 }) this ({ 1 }) good ({ 3 }) is ({ 1 }) ! ({ })",
    ]


@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
def test_every_format_has_its_lines_for_every_pair(output_format):
    whole = replace(WHOLE, spans=SPANS)
    text = render(whole, output_format)
    assert text.count(b"\n") == (3 if output_format == "giza" else 1) * len(LINKS)
    parts = [
        render(
            Alignment(
                LINKS.block(m, m + 1),
                SOURCE[m : m + 1],
                TARGET[m : m + 1],
                probabilities,
                scores,
                spans=SPANS[m : m + 1],
            ),
            output_format,
            m + 1,
        )
        for m, (probabilities, scores) in enumerate(
            zip(np.split(WHOLE.probabilities, LINKS.offsets[1:-1]), WHOLE.sentence_scores[:, None], strict=True)
        )
    ]
    assert b"".join(parts) == text


def test_a_format_says_what_it_needs():
    with pytest.raises(AlignkitError, match="probabilities needs the probabilities of the links"):
        render(Alignment(LINKS), "probabilities")
    with pytest.raises(AlignkitError, match="giza needs the words of every sentence pair"):
        render(Alignment(LINKS), "giza")
    with pytest.raises(AlignkitError, match="offsets is for raw text; it goes only with --tokenize"):
        render(WHOLE, "offsets")
    with pytest.raises(AlignkitError, match=f"unknown format 'xml'; choose from {', '.join(OUTPUT_FORMATS)}"):
        render(Alignment(LINKS), "xml")


@pytest.mark.parametrize("logarithm", [0.0, -1.0, -0.5, -2.302585092994046, -700.0, -5000.0, 3.2, -1e-12, -2.3025])
def test_exponential_is_right_beyond_the_range_of_floats(logarithm):
    mantissa, exponent = exponential(logarithm).split("e")
    assert 1 <= float(mantissa) < 10
    assert math.log(float(mantissa)) + int(exponent) * math.log(10) == pytest.approx(logarithm, abs=1e-4)
    if -600 < logarithm < 600:
        assert float(exponential(logarithm)) == pytest.approx(math.exp(logarithm), rel=1e-4)


def test_exponential_of_nothing():
    assert exponential(math.nan) == "0"


def test_sentence_scores():
    assert sentence_score_lines(np.array([[-1.23456789], [math.nan], [0.0]])) == b"-1.23457\nnan\n0\n"
    assert sentence_score_lines(np.array([[-1.5, -2.0]])) == b"-1.5\t-2\n"
