"""Inline elements of TMX and XLIFF, put into translations."""

from __future__ import annotations

import io
import re
from itertools import count
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.uses.projection_files import project_files

JOB = """<?xml version="1.0" encoding="{}"?>
<xliff version="1.2"><file source-language="de" target-language="en" original='a'>
<trans-unit id="1"><source>{}</source>
  <target state = "new">{}</target><note>&#x2014;</note></trans-unit>
<trans-unit id="2"><source><x id="8"/>b</source></trans-unit><trans-unit id="3" ><source>c</source>\r
<target>C</target></trans-unit></file></xliff>
"""
# source | target | links | target with elements. What begins and ends something goes as an element does, unless it
# is not closed within its element, or overlaps; it begins before it ends all the same.
CASES = """<g id="1">das</g> Haus | house the | 0-1 1-0 | house <g id="1">the</g>
<bpt i="1">&lt;</bpt>a<ept i="1">&gt;</ept> b | B A | 0-1 1-0 | B <bpt i="1">&lt;</bpt>A<ept i="1">&gt;</ept>
<bx id="1" rid="3"/>a <g>b</g><ex id="2" rid="3"/> c | B | 1-0 | <bx id="1" rid="3"/><g>B</g><ex id="2" rid="3"/>
<sc id="1"/>a<ec startRef="1"/> b | B A | 0-1 1-0 | B <sc id="1"/>A<ec startRef="1"/>
<sm id="1"/>a<em startRef="1"/> b | B A | 0-1 1-0 | B <sm id="1"/>A<em startRef="1"/>
<g><bx id="1"/>a</g> <ex id="1"/>b | B A | 0-1 1-0 | <bx id="1"/>B <g><ex id="1"/>A</g>
<bx i="1"/>a <bx i="2"/>b<ex i="1"/> c<ex i="2"/> | A B | 0-0 1-1 | <bx i="1"/>A <bx i="2"/>B<ex i="1"/><ex i="2"/>
<ept i="1"/>a<it id="2">{<sub>x</sub>}</it> | A | 0-0 | <ept i="1"/>A<it id="2">{<sub>x</sub>}</it>
<mrk>a<!-- c --></mrk >&amp;<ph/> | A&lt;&#x26;B\t | 0-0 | <mrk>A&lt;&#x26;B</mrk ><ph/>\t
a <g>&lt;</g> <x/>ß | &quot;&lt; ä ü | 0-0 1-1 2-2 | &quot;&lt; <g>ä</g> <x/>ü"""


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """The file with elements, of the text of a file and links of its first unit."""
    folder = tmp_path_factory.mktemp("units")

    def call(data, links, encoding="utf-8", **options):
        (folder / "job").write_bytes(data.encode(encoding))
        (folder / "links").write_text(f"{links}\n\n\n")
        return b"".join(project_files(folder / "job", None, folder / "links", **options)).decode(encoding)

    return call


@pytest.mark.parametrize("case", CASES.splitlines())
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "iso-8859-1"])
def test_elements_are_put_in_and_all_else_stays(project, case, encoding, monkeypatch):
    monkeypatch.setattr("alignkit.text.translators.SLICE", 1)
    source, target, links, wanted = case.split(" | ")
    named = "utf-16" if "16" in encoding else encoding.removesuffix("-sig")
    assert project(JOB.format(named, source, target), links, encoding) == JOB.format(named, source, wanted)


MARKUP = ["<x id='1'/>A", "A<!-- c -->", "<![CDATA[A]]>", "<?p?>A", "<mrk/>A", "<ph>A</ph>"]


@pytest.mark.parametrize("target", ["", " ", *MARKUP])
def test_only_translations_without_markup_get_elements(project, target, caplog):
    caplog.set_level("INFO", "alignkit")
    text = JOB.format("utf-8", '<x id="1"/>a', target)
    assert project(text, "0-0" if target in MARKUP[:-1] else "") == text
    assert caplog.messages == [
        "3 sentences; labels or tags without a place in the links: 0",
        f"translations that have markup of their own and stay as they are: {int(target in MARKUP)}",
    ]


def test_what_has_no_place_is_named(project, caplog):
    found = project(JOB.format("utf-8", 'a <g id="1">b</g>', "A B"), "0-0", least=1)
    assert found == JOB.format("utf-8", 'a <g id="1">b</g>', 'A <g id="1"></g>B')
    assert caplog.messages[0] == 'no place in the links: {"line": 1, "tag": "<g id=\\"1\\">", "text": "b"}'


def test_raw_text(project):
    pytest.importorskip("icu4py")
    text = JOB.format("utf-8", "Hallo, <g>Welt</g>!", "Hi, &quot;you&quot;.")
    assert "Hi, &quot;<g>you</g>&quot;." in project(text, "0-0 1-1 2-3 3-5", tokenize=True)
    text = JOB.format("utf-8", "Ja, <g>„Welt!“</g>, ja", "Hi, &quot;you!&quot;, hi")
    assert "Hi, <g>&quot;you!&quot;</g>, hi" in project(text, "2-2 3-3 4-4 5-5 6-6", tokenize=True)


parts = ["a", " b", "&lt;", "&#xdf;\n", "<x/>", "<ph>&amp;<sub>c</sub></ph>", '<bpt i="1"/>', '<ept i="1"/>']
nodes = st.recursive(
    st.sampled_from(parts),
    lambda inner: st.lists(inner, max_size=4).map(lambda each: f"<g>{''.join(each)}</g>"),
    max_leaves=12,
)
TAGS = re.compile(r"<ph .*?</ph>|</?(?:x|g|bpt|ept)\b[^>]*>")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(nodes, max_size=4).map("".join),
    st.lists(st.sampled_from(["a", " ", "&amp;", "\U0001d538\r\n", "é", ">"]), max_size=6).map("".join),
    st.sets(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=9),
    st.sampled_from(["utf-8", "utf-16"]),
)
def test_each_element_is_in_the_target_once_and_its_text_stays(project, source, target, pairs, encoding):
    numbers = count()
    source = re.sub(r"<(\w+)", lambda match: f'{match[0]} n="{next(numbers)}"', source)
    sizes = [len(TAGS.sub("", text).split()) for text in (source, target)]
    links = " ".join(f"{s}-{t}" for s, t in sorted(pairs) if s < sizes[0] and t < sizes[1])
    found = project(JOB.format(encoding, source, target), links, encoding)
    root = ElementTree.fromstring(found.encode(encoding))  # it is well-formed
    of_source, of_target = (
        sorted(each.get("n", "") for each in next(root.iter(side)).iter()) for side in ("source", "target")
    )
    assert of_target == (of_source if target.strip() else [""])
    before, after = JOB.format(encoding, source, "|").split("|")
    filled = found.removeprefix(before).removesuffix(after)
    assert before + filled + after == found
    assert TAGS.sub("", filled) == target
    assert {tag for tag in TAGS.findall(filled) if "/" in tag[-5:]} <= {*TAGS.findall(source)}  # code and all


def test_the_translate_toolkit_reads_what_is_written(project):
    xliff = pytest.importorskip("translate.storage.xliff")
    text = JOB.format("utf-8", 'a <g id="1">b</g> <x id="2"/>c', "A B C")
    given, found = (xliff.Xliff1File(io.BytesIO(each.encode())).units for each in (text, project(text, "1-1 2-2")))
    assert [(x.source, x.target) for x in given] == [(y.source, y.target) for y in found]
    assert [str(part) for part in found[0].rich_target[0].sub] == ["A ", "B", " ", "", "C"]
