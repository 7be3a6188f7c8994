"""Inline tags put into a translation."""

from __future__ import annotations

import json
import re
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alignkit.errors import InputError
from alignkit.support.packages import is_here
from alignkit.text.raw_text import unicode_word_spans
from alignkit.uses.projection import RULES, LinkedPair
from alignkit.uses.projection_files import parse_json_lines, parse_tags, project_files, word_spans


def tagged(source, target, links, **options):
    """The target with the tags, and the tags without a place."""
    (line,) = parse_tags("source", [source])
    pair = LinkedPair(sorted((*map(int, link.split("-")), 1.0) for link in links.split()), **options)
    text, unplaced = line.onto("target", target, word_spans(target), pair)
    assert text.endswith("\n")
    return text[:-1], [item["tag"] for item in unplaced]


@pytest.mark.parametrize(
    ("source", "target", "links", "wanted"),
    [
        ("das <b>Haus</b>", "the house", "0-0 1-1", "the <b>house</b>"),
        ("<b>das</b>  <i>Haus</i>", "house\tthe", "0-1 1-0", "<i>house</i>\t<b>the</b>"),
        ("<b>das <i>Haus</i></b> da", " x the house", "0-1 1-2 2-0", " x <b>the <i>house</i></b>"),
        ("<b><i>das Haus</i></b>", "the house", "0-0 1-1", "<b><i>the house</i></b>"),
        ("Haus<br/>{0} da<BR>", "house there", "0-0 1-1", "house <br/>{0}there<BR>"),
        ('{name} <x id="1"/><a href="/<p>">da</a>', "there", "0-0", '{name}<x id="1"/><a href="/<p>">there</a>'),
        ("<!-- <b> --> a < b >3 {a b} <3", "1 < b >3 {a b} <3", "0-0", "<!-- <b> -->1 < b >3 {a b} <3"),
        ("ein<b>mal</b>", "once upon", "0-0", "<b>once</b> upon"),
        ("<g></g>eins<x/>", "one\r", "0-0", "<g></g>one<x/>\r"),
        ("<b>a c</b> <i>b</i>", "x y z", "0-0 1-2 2-1", "<b>x</b> <i>y</i> z"),  # the hull of b is around i
        ("<b>a <i>b</i></b> <u>c</u>", "x y", "0-0 1-1 2-1", "<b>x <i>y</i></b><u></u>"),
        ("<g1>a</g1><br> <g2>b</g2>", "y x", "0-1 1-0", "<br><g2>y</g2> <g1>x</g1>"),
        ("<b>a <i>b</i></b> c", "y x", "0-1 2-0", "y <b><i></i>x</b>"),  # what is in b stays there
        ("{0}", "", "", "{0}"),
        ('"<b>Haus</b>", da.', '"house," there.', "0-0 1-1", '"<b>house</b>," there.'),  # no marks in b
        ("<b>Haus,</b> da", "house, there", "0-0 1-1", "<b>house,</b> there"),
        ("<b>Haus.</b>, da", "house! there", "0-0 1-1", "<b>house!</b> there"),  # as many as in the source
        ("<b>!</b>a <i><b>a</b></i>.", "! (a).", "0-0 1-1", "<b>!</b> <i><b>(a)</b></i>."),
        ("x<br> y z <br/>", "b a c", "0-1 1-0", "<br>b a c<br/>"),
        ("", "a <b a", "", "a <b a"),
        ("<!-- a --> x <!-- b --> y {}", "1 2", "0-0 1-1", "<!-- a -->1 <!-- b -->2{}"),
        ("das\t<b>Haus</b>\tda", 'the "house" there', "0-0 1-1 2-2", 'the <b>"house"</b> there'),
        ("das <b>(Haus)</b>, da", "the (house) , there", "0-0 1-1 2-3", "the <b>(house)</b> , there"),
        ("<b>(Haus)</b>, da", "house, there", "0-0 1-1", "<b>house</b>, there"),
        ("„<b>(Haus)</b>“ da", '"(house)" there', "0-0 1-1", '"<b>(house)</b>" there'),
        ('"(<b>Haus</b>)" da', '"(house)" there', "0-0 1-1", '"(<b>house</b>)" there'),
        ("a<b>b</b>", "?", "0-0", "<b>?</b>"),  # something stays in the element
        ("<b>a</b>b", "?", "0-0", "<b>?</b>"),
        ("a<b>b</b>", "?x", "0-0", "?<b>x</b>"),
        ("<b>a</b>b", "x?", "0-0", "<b>x</b>?"),
        ("<b>a</b>b", "x&amp;", "0-0", "<b>x&amp;</b>"),
        ("<b>a c</b>b", "&lt; x&amp;", "0-0 1-1", "<b>&lt; x&amp;</b>"),
        ("<i><b>a</b> c</i>.", "y x.", "0-1 1-0", "<i>y <b>x</b></i>."),
        ("a<br>", "\r", "", "<br>\r"),
        ("<B>a</b>", "x", "0-0", "<B>x</b>"),
        ("<b><x/>a c</b>", "x y", "0-1 1-0", "<b><x/>x y</b>"),
        ("{0}", "x y", "", "{0}x y"),
        ("a b {0} c", "x", "", "x{0}"),
        ("<b>a</b><x/> c", "p", "0-0 1-0", "<x/><b>p</b>"),
        # What would go outside of the element that it is in goes to its nearer end.
        ("<u>d</u> <b>a <x/>c<y/></b>", "p q r s", "0-1 0-3 1-0 2-3", "<b>p<x/><y/></b> <u>q r s</u>"),
        ("<u>d</u> <b><y/>a <x/>c</b>", "p q r s", "0-0 0-2 1-3 2-0", "<u>p q r</u> <b><y/><x/>s</b>"),
    ],
)
def test_where_tags_go(source, target, links, wanted):
    assert tagged(source, target, links)[0] == wanted


@pytest.mark.parametrize(
    ("source", "target", "links", "wanted"),
    [
        ("sagte <b>„Ja!“</b>, laut", 'said "Yes!", loud', "", 'said <b>"Yes!"</b>, loud'),
        ("sagte „<b>Ja!</b>“ laut", 'said "Yes!" loud', "", 'said "<b>Yes!</b>" loud'),
        ("他说<b>“好的。”</b>然后走了。", "He said “Fine.” then left.", "", "He said <b>“Fine.”</b> then left."),
        ("<b>「第一章」</b>", "(Chapter 1)", "0-0 1-1 1-2 2-3", "<b>(Chapter 1)</b>"),
        ("Das <b>Haus</b>, ja.", "The house, yes.", "", "The <b>house</b>, yes."),
        ("<b>太好了</b>。我们走吧。", "Great! Let's go!", "0-0 1-1 2-2 3-3 4-4", "<b>Great</b>! Let's go!"),
    ],
)
def test_the_marks_of_raw_text_are_words_whose_links_count(tmp_path, source, target, links, wanted):
    pytest.importorskip("icu4py")
    paths = [tmp_path / name for name in ("source", "target", "links")]
    one_to_one = " ".join(f"{i}-{i}" for i in range(len(unicode_word_spans(target))))
    for path, text in zip(paths, (source, target, links or one_to_one), strict=True):
        path.write_text(text + "\n", encoding="utf-8")
    assert b"".join(project_files(*paths, tokenize=True)).decode() == wanted + "\n"


#: Words, and marks that are attached to them.
PIECES = [*'"„“”«»().,!?…、。「」¿', "...", '"(', ").", *["Haus", "rot", "שלום", "北京", "好的", " ", " "] * 4]


@pytest.mark.parametrize("is_raw", [False, True])
def test_projected_onto_itself_a_text_does_not_change(is_raw):
    if is_raw:
        pytest.importorskip("icu4py")
    splitter = unicode_word_spans if is_raw else word_spans
    draw = Random(4)
    for _ in range(600):
        text = "".join(draw.choices(PIECES, k=12)) + "a"
        places = splitter(text)
        # Elements begin and end with words; between spaces, also within the marks before and after letters.
        bounds = [(a, a, b, b) for a, b in places]
        if not is_raw:
            words = [(place, re.match(r"(\W*)\w(?:.*\w)?(\W*)\Z", text[slice(*place)])) for place in places]
            bounds = [(a, a + len(word[1]), b - len(word[2]), b) for (a, b), word in words if word]
        (low, high, _, _), (_, _, first, last) = (bounds[i] for i in sorted(draw.choices(range(len(bounds)), k=2)))
        (a, b), (c, d) = (sorted(draw.choices(range(x, y + 1), k=2)) for x, y in ((low, high), (first, last)))
        pair = LinkedPair([(i, i, 1.0) for i in range(len(places))])
        source = f"{text[:a]}<b>{text[a:b]}<i>{text[b:c]}</i>{text[c:d]}</b>{text[d:]}"
        (line,) = parse_tags("source", [source], splitter)
        assert line.onto("target", text, places, pair) == (source + "\n", [])
        record = {"text": text, "spans": [{"start": a, "end": d}, {"start": b, "end": c}]}
        (line,) = parse_json_lines("source", [json.dumps(record)], splitter)
        found = json.loads(line.onto("target", text, places, pair)[0])["spans"]
        assert [(each["start"], each["end"]) for each in found] == [(a, d), (b, c)]


def test_what_has_no_place_is_put_somewhere_and_named():
    assert tagged("<b>das</b> Haus", "house", "1-0") == ("<b></b>house", ["<b>"])
    assert tagged("a b {0} <i>c <u>d</u></i>", "x y", "") == ("x {0}<i><u></u></i>y", ["{0}", "<i>", "<u>"])
    assert tagged("das {0} Haus", "house there", "") == ("house {0}there", ["{0}"])
    assert tagged("<b>a c</b> d", "x y z", "0-0 1-2", rule="unsplit") == ("<b></b>x y z", ["<b>"])
    assert tagged("<b>a c</b>", "x", "0-0", least=0.6) == ("<b></b>x", ["<b>"])
    (line,) = parse_tags("source", ["<b>das</b> Haus<br>"])
    assert line.words == ["das", "Haus"]
    assert line.onto("t", "x", word_spans("x"), LinkedPair([]))[1][0] == {"line": 1, "tag": "<b>", "text": "das"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a <i>x <b>c", "<b> is not closed on its line; write &lt;"),
        ("<b><i>a</b></i>", "</b> does not close the last open tag"),
        ("a</b>", "</b> does not close"),
        ("{0}</b>", "</b> does not close"),
        ("<b>" * 100 + "</b>" * 100, "has more than 99 elements"),
    ],
)
def test_tags_that_are_not_well_formed(line, problem):
    with pytest.raises(InputError, match=rf"^source, line 2: {problem}"):
        parse_tags("source", ["", line])


def test_tags_without_an_end_and_elements_within_each_other():
    void = "<area><base><br><col><embed><hr><img><input><link><meta><param><source><track><wbr>"
    (line,) = parse_tags("source", [void])
    assert "".join(tag.opening for tag in line.tags) == void
    assert tagged("<b>" * 99 + "a" + "</b>" * 99, "x", "0-0")[0] == "<b>" * 99 + "x" + "</b>" * 99


def test_by_default_all_hulls_are_placed(tmp_path):
    paths = [tmp_path / name for name in ("source", "target", "links")]
    for path, text in zip(paths, ("<b>a b</b>", "x y z", "0-0:0.1 1-2:0.2"), strict=True):
        path.write_text(text)
    assert project_files(*paths) == [b"<b>x y z</b>\n"]


@pytest.mark.parametrize("target", ["a {0}", "<b>a</b>", "a</i>", "<br>"])
def test_a_translation_that_has_tags_already(target):
    with pytest.raises(InputError, match=r"^target, line 1: has the tag '.*'; give the translation without tags"):
        tagged("<b>a</b>", target, "0-0")


words = st.lists(st.sampled_from(["a", "bc", "ü", "5", "<", "&amp;"]), max_size=6)
nodes = st.recursive(
    st.sampled_from(["a", " b", " ", "ß c "]) | st.just("<x/>"),
    lambda inner: st.lists(inner, max_size=4).map(lambda parts: f"<e>{''.join(parts)}</e>"),
    max_leaves=12,
)
sources = st.lists(nodes, max_size=4).map("".join)


def numbered(source):
    """Every element with its number in its name; the tree of numbers."""
    count = iter(range(1000))
    waiting, out = [], []
    for part in re.split(r"(</?e>|<x/>)", source):
        if part == "</e>":
            out.append(f"</e{waiting.pop()}>")
        elif part in ("<e>", "<x/>"):
            number = next(count)
            out.append(f"<x{number}/>" if part == "<x/>" else f"<e{number}>")
            waiting += [number] if part == "<e>" else []
        else:
            out.append(part)
    return "".join(out)


def parents(text):
    """{element: the one that it is in}, by an XML parser."""
    root = ElementTree.fromstring(f"<r>{text.replace('< ', '').replace('&amp;', '')}</r>")
    return {child.tag: parent.tag for parent in root.iter() for child in parent}


@settings(max_examples=40)
@example("a<e0>a</e0>", ["a", "&amp;"], " ", {(0, 1)}, "hull", False)
@example("<e0>a</e0>a", ["a", "&amp;"], " ", {(0, 1)}, "hull", False)
@example("<e0>a</e0>a", ["a&amp;a"], " ", {(0, 1)}, "hull", True)
@given(
    sources.map(numbered),
    words,
    st.sampled_from([" ", "  ", "\t"]),
    st.sets(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=9),
    st.sampled_from(list(RULES)),
    st.booleans() if is_here("icu4py") else st.just(False),
)
def test_without_its_tags_the_result_is_the_target(source, target, space, pairs, rule, is_raw):
    splitter = unicode_word_spans if is_raw else word_spans
    (line,) = parse_tags("source", [source], splitter)
    plain = space.join(["", *target])
    places = splitter(plain)
    kept = sorted((s, t, 1.0) for s, t in pairs if s < len(line.words) and t < len(places))
    text, _ = line.onto("target", plain, places, LinkedPair(kept, rule))
    assert re.sub(r"</?[ex]\d+/?>", "", text) == plain + "\n"
    assert line.text == re.sub(r"<[^>]*>", "", source)
    assert parents(text.replace("<\n", "\n").replace("<\t", "\t").replace("<<", "<")) == parents(source)
