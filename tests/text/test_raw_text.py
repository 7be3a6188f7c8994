# ruff: noqa: RUF001
"""Words of raw text and their places: nothing is lost, and every way to read a text gives the same."""

import re
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.text.bitext import Bitext
from alignkit.text.blocks import block_bounds, pair_batches, read_blocks, read_sample
from alignkit.text.pairs import PairFiles, read_bitext, read_text
from alignkit.text.raw_text import tokenized_text, unicode_word_spans

pytest.importorskip("icu4py")

SCRIPTS = {
    "Latin": "Don't pay €1,000.50 for l'été, e.g. in Škofja Loka… (see https://x.org/a?b=c, or a@b.de)!",
    "Greek": "Τι ώρα είναι; Η Αθήνα — 12 το μεσημέρι.",
    "Cyrillic": "П'ять об’єктів: 3,5 % і т.д. «Так», сказав він.",
    "Hebrew": "צה\"ל וג'ורג' הלכו לבית־ספר, נכון?",
    "Arabic": "ذهبَ الولدُ إلى المدرسة، أليس كذلك؟ ١٢٣٫٥",
    "Devanagari": "मैं हिन्दी-उर्दू सीख रहा हूँ। क्या आप?",
    "Han": "我喜欢在北京大学学习自然语言处理，2024年3月！",
    "Japanese": "私は東京大学で「自然言語処理」を勉強しています。コーヒー？",
    "Thai": "ฉันชอบกินข้าวผัด ที่ร้านอาหารไทยๆ 3 จาน",
    "Hangul": "한국어를 공부합니다. 정말요?! 그래요…",
    "beyond 16 bits": "𝒳𝒴 👩‍👩‍👧 👍🏽👍 🇩🇪! 𠮷野家 e\u0301te\u0301",
}
SPACES = ["", "  ", " \u0308", *"   \t\u00a0\u3000\u200b\u2028\r\x0b\ufeff\0"]


def words(line):
    return [line[start:end] for start, end in unicode_word_spans(line)]


def lines(count=1000):
    """Pieces of sentences in all scripts, with white space of many kinds between them."""
    draw = Random(1)
    for _ in range(count):
        parts = [draw.choice([*SCRIPTS.values()]) for _ in range(draw.randint(0, 2))]
        cuts = [part[draw.randint(0, 20) : draw.randint(20, 99)] for part in parts]
        yield "".join(draw.choice(SPACES) + part + draw.choice(SPACES) for part in cuts)


def test_nothing_is_lost():
    """Between the words is white space only, so that they, put where they were, are the line again."""
    seen = 0
    for line in [*SCRIPTS.values(), *lines()]:
        spans = unicode_word_spans(line)
        ends = [end for _, end in spans]
        assert all(start < end for start, end in spans)
        assert all(end <= start for end, start in zip(ends, [start for start, _ in spans[1:]], strict=False))
        again = [" "] * len(line)
        for start, end in spans:
            again[start:end] = line[start:end]
        assert "".join(again) == re.sub("[\\s\u200b]", " ", line)
        seen += len(spans)
    assert seen > 5_000


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Don't, he said, I'm Tom's moon's.", "Do n't , he said , I 'm Tom 's moon 's ."),
        ("He CAN’T; they’ll go, it’s 'fine'", "He CA N’T ; they ’ll go , it ’s ' fine '"),
        ("L'homme de l’été qu'il, dell'arte, nell'804", "L' homme de l’ été qu' il , dell' arte , nell' 804"),
        ("O'Brien, П'ять, Ankara'da", "O'Brien , П'ять , Ankara'da"),
        ("It cost $1,000.5 or 5% (3/4)...", "It cost $ 1,000.5 or 5 % ( 3 / 4 ) ..."),
        ("e.g. the U.S. of J. Smith, etc. and Mr. X. Then", "e.g. the U.S. of J. Smith , etc. and Mr. X. Then"),
        ("am 12. Mai, 12. marca. The end.", "am 12 . Mai , 12. marca . The end ."),
        ("well-known, - no --", "well-known , - no --"),
        ("See https://a.b/c?d=e, www.x.org, a.b@c.de!", "See https://a.b/c?d=e , www.x.org , a.b@c.de !"),
        ("喜欢自然语言。", "喜欢 自然 语言 。"),
        ("กินข้าวผัด", "กิน ข้าว ผัด"),
        ("मैं हिन्दी।", "मैं हिन्दी ।"),
        ("👩‍👩‍👧👍🏽!", "👩‍👩‍👧 👍🏽 !"),
        ("\u200b \u00a0\t", ""),
    ],
)
def test_words(line, expected):
    assert words(line) == expected.split()


TEXT = [("Das  ist gut.", "That's good."), ("", "x"), ("İzmir\u00a0!", "Izmir!"), ("Nein, ja.", "No, yes.")] * 3


@pytest.mark.parametrize("lowercase", [False, True])
def test_every_way_to_read_a_text_gives_the_same(tmp_path, lowercase):
    how = {"tokenize": True, "lowercase": lowercase}
    files = []
    for name, side in zip(("s", "t"), zip(*TEXT, strict=True), strict=True):
        files.append(tmp_path / name)
        files[-1].write_text("".join(line + "\r\n" for line in side), encoding="utf-8", newline="")
    expected = read_bitext(*files, **how)
    assert expected.target.words(0) == ["that" if lowercase else "That", "'s", "good", "."]
    assert expected.target.spans_of(0) == [(0, 4), (4, 6), (7, 11), (11, 12)]
    assert expected.source.spans_of(2) == [(0, 5), (6, 7)]  # although "İ" has two characters in lower case
    both = "".join(f"{x} ||| {y}\n" for x, y in TEXT)
    (tmp_path / "both").write_text(both, encoding="utf-8")
    reading = PairFiles(tmp_path / "both", **how)
    stream = pair_batches("-", [both.encode()], single=True, **how)
    blocks = [batch.bitext for batch in stream], list(read_blocks(reading, block_bounds(reading, 5)))
    for found in (read_bitext(tmp_path / "both", **how), read_text(*zip(*TEXT, strict=True), **how)):
        check(found, expected)
    for parts in blocks:
        for part, (low, high) in zip(parts, pairwise(np.cumsum([0, *map(len, parts)])), strict=True):
            check(part, expected.take(np.arange(low, high)).with_own_words())
    check(read_sample(reading, np.array([1, 7])), expected.take(np.array([1, 7])).with_own_words())
    check(expected.block(2, 4).with_own_words(), expected.take(np.array([2, 3])).with_own_words())


def check(found, expected):
    assert found == expected
    for one, other in ((found.source, expected.source), (found.target, expected.target)):
        assert one.spans.tolist() == other.spans.tolist()


def test_a_saved_bitext_keeps_the_places(tmp_path):
    bitext = read_text(*zip(*TEXT, strict=True), tokenize=True)
    bitext.save(tmp_path / "x.npz")
    check(Bitext.load(tmp_path / "x.npz"), bitext)


def test_given_words_stay_as_they_are():
    bitext = read_text([["can't", "go"]], ["can't go"], tokenize=True)
    assert (bitext.source.words(0), bitext.source.spans) == (["can't", "go"], None)
    assert bitext.target.words(0) == ["ca", "n't", "go"]


def test_impossible_sentences():
    with pytest.raises(AlignkitError, match="source sentences must all be text, or all lists of words"):
        read_text(["a b", ["c"]], ["x", "y"], tokenize=True)
    with pytest.raises(AlignkitError, match="the source sentence at index 1 has half a character"):
        read_text(["a", "\ud83d"], ["x", "y"], tokenize=True)


def test_lines_stay_lines():
    assert len(tokenized_text("a\u2028b\n\n \nx".encode())) == 4
    assert len(tokenized_text(b"")) == 0
    assert read_text(["a\nb"], ["x"], tokenize=True).source.spans_of(0) == [(0, 1), (2, 3)]
