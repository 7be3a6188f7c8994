"""Units of TMX and XLIFF as texts."""

from __future__ import annotations

import gzip
import io
import re

import pytest

from alignkit.errors import InputError
from alignkit.text.blocks import block_bounds, read_blocks
from alignkit.text.pairs import PairFiles, read_line_pairs

# After the examples of the specifications: native code, whole elements, and what is in a file beside the units.
TMX = """<?xml version="1.0"?>
<!-- Example --><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"><note xml:lang="fr">n</note></header><body>
<tu><note>n</note><tuv xml:lang="EN"><seg>data &#xE9; &lt;&amp;<ph x="1">{<sub>no</sub>}</ph> text</seg></tuv>
<tuv xml:lang="FR_CA"><prop>p</prop>
<seg>donn&#233;es <bpt i="1">&lt;b></bpt>a<hi>b</hi><ept i="1"/> c</seg></tuv></tu>
<tu><tuv xml:lang="fr-ca"><seg>menu</seg></tuv><tuv xml:lang="en"><seg>the
menu</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>alone</seg></tuv></tu></body></tmx>"""
TMX_PAIRS = [("data é <& text", "données ab c"), ("the menu", "menu"), ("alone", "")]
XLIFF = """<xliff version="1.2"><file source-language="de-DE" target-language="en"><header/><body><group>
<trans-unit id="1"><source>das <g id="1"><x id="2"/>Haus</g><it id="3">&lt;br></it></source>
<seg-source>q</seg-source><target>the <mrk mtype="seg"><![CDATA[<house>]]></mrk></target>
<alt-trans><source>r</source><target>s</target></alt-trans>
</trans-unit></group><trans-unit id="2"><source>ja<!-- c --></source><target/></trans-unit>
<trans-unit id="3"><source>nein</source></trans-unit></body></file></xliff>"""
XLIFF_PAIRS = [("das Haus", "the <house>"), ("ja", ""), ("nein", "")]
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="de" trgLang="en-US">
<file id="f"><unit id="1"><m:matches xmlns:m="urn:oasis:names:tc:xliff:matches:2.0"><m:match><source>q</source>
<target>r</target></m:match></m:matches><segment><source>Ein <pc id="1">Satz</pc>.<cp hex="0001"/></source>
<target>A sentence.</target></segment><ignorable><source> </source></ignorable>
<segment><source><sc id="2"/>Zwei<ec startRef="2"/></source></segment></unit></file></xliff>"""
XLIFF_2_PAIRS = [("Ein Satz.", "A sentence."), ("Zwei", "")]
SAMPLES = {"tmx": (TMX, TMX_PAIRS), "xliff": (XLIFF, XLIFF_PAIRS), "xliff 2": (XLIFF_2, XLIFF_2_PAIRS)}


def tmx(*units, srclang="*all*"):
    """Each unit as ``de=ein Text|en=a text``."""
    texts = (re.sub(r"([\w-]+)=([^|]*)\|?", r'<tuv xml:lang="\1"><seg>\2</seg></tuv>', unit) for unit in units)
    return f'<tmx><header srclang="{srclang}"/>' + "".join(f"<tu>{each}</tu>\n" for each in texts) + "</tmx>"


@pytest.fixture
def pairs(tmp_path):
    def read(data, fields=""):
        (tmp_path / "file").write_bytes(data if isinstance(data, bytes) else data.encode())
        return list(zip(*read_line_pairs(f"{tmp_path / 'file'}{fields}"), strict=True))

    return read


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_units_are_pairs(pairs, tmp_path, name, encoding, monkeypatch):
    text, wanted = SAMPLES[name]
    monkeypatch.setattr("alignkit.text.translators.SLICE", 5)
    data = text.encode(encoding)
    assert pairs(data) == pairs(gzip.compress(data)) == wanted
    files = PairFiles(tmp_path / "file")
    blocks = read_blocks(files, block_bounds(files, 2))
    words = [(" ".join(b.source.words(m)), " ".join(b.target.words(m))) for b in blocks for m in range(len(b))]
    assert words == wanted
    with pytest.raises(InputError, match="file: has XML, not sentences; give one file with both sides"):
        read_line_pairs(tmp_path / "file", tmp_path / "file")


def test_languages_are_chosen(pairs):
    assert pairs(TMX, ":fr,en") == [(y, x) for x, y in TMX_PAIRS]
    assert pairs(TMX.replace("xml:lang", "lang")) == TMX_PAIRS  # as in TMX 1.1
    assert pairs(tmx("en=a|de=b", "", "de=c", srclang="DE")) == [("b", "a"), ("", ""), ("c", "")]
    assert pairs(tmx("", "en=a", "de=c|en=d")) == [("", ""), ("a", ""), ("d", "c")]
    three = tmx("en-GB=a|en=b|fr=c", "en-US=d|fr=e", "en_gb=f", "en=g|en=h")
    assert pairs(three, ":en,fr") == [("b", "c"), ("d", "e"), ("f", ""), ("g", "")]
    assert pairs(three, ":fr,en-gb") == [("c", "a"), ("e", ""), ("", "f"), ("", "")]


DEEP = "<g>" * 10_000 + "</g>" * 10_000
NO_DECLARATIONS = "line 1: has declarations in its DOCTYPE, which may be hostile; take them out"
REFUSED = [
    ('<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>' + tmx("de=&b;|en=x"), NO_DECLARATIONS),
    ('<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]>' + tmx("de=&a;|en=x"), NO_DECLARATIONS),
    ('<!DOCTYPE tmx SYSTEM "a.dtd">' + tmx("de=x|en=x", "de=&e;|en=x"), "line 2: has the unknown entity e; write"),
    (tmx("de=a|en=&e;"), "cannot be read as XML: undefined entity: line 1, "),
    (tmx("de=a|en=b", f"de={DEEP}|en=b"), "line 2: has more than 100 elements within each other"),
    (tmx(f"de={'<x/>' * 1001}|en=b"), "line 1: .*, or 1,000 in one text"),
    (tmx(f"de=<!--{'-a' * (1 << 20)}--> b|en=c"), "line 1: has a tag or comment of more than 1,048,576 bytes"),
    (XLIFF.replace("<group>", "<trans-unit>"), "line 2: has a <trans-unit> within another unit"),
    (XLIFF[:-9], "unclosed token: line 6"),
    (XLIFF.replace("</g>", ""), "mismatched tag: line 2"),
    (b'<?xml version="1.0" encoding="us-ascii"?>\n' + tmx("de=\xe4|en=a").encode(), "invalid token.: line 2"),
    ('<?xml version="1.0" encoding="x-y"?>' + tmx("de=a|en=a"), "unknown encoding"),
    ('<?xml version="1.0" encoding="gb18030"?>' + tmx("de=a|en=a"), "cannot be read as XML: multi-byte"),
    (
        tmx("de=a|en=b", "de=a|fr=b"),
        "line 2: has the languages de, en, fr; name two of its languages, as FILE:de,en",
    ),
    (tmx("de=a", "de=b"), "file: has texts in de, which are not source and target; name two"),
    (TMX.replace('xml:lang="EN"', ""), "line 4: has a <tuv> without xml:lang"),
    (tmx(), "file: has no records"),
]


@pytest.mark.parametrize(("data", "problem"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(pairs, data, problem):
    with pytest.raises(InputError, match=problem) as error:
        pairs(data)
    assert "\n" not in str(error.value)


def test_languages_that_there_are_not(pairs):
    xliff = "line 1: is XLIFF, which has a source and a target; name no languages"
    for text, fields, problem in (
        (TMX, ":de,en", "in en, fr-ca, "),
        (TMX, ":en,en", "not source"),
        (XLIFF, ":de,en", xliff),
    ):
        with pytest.raises(InputError, match=problem):
            pairs(text, fields)


def test_only_files_of_units_are_taken_for_them_however_long(pairs):
    assert len(pairs(tmx(*["de=a|en=b"] * 20_000))) == 20_000
    for text in ("a <tmx> ||| b\n", "<b> ||| <tmxs>\n", "< tmx ||| <tm\n"):
        assert len(pairs(text)) == 1


@pytest.mark.parametrize(
    ("name", "place"), [("tmx", "tmx.tmxfile"), ("xliff", "xliff.Xliff1File"), ("xliff 2", "xliff2.Xliff2File")]
)
def test_the_translate_toolkit_reads_the_same(name, place):
    """Apart from native code, which it takes for text."""
    module, _, store = place.partition(".")
    storage = pytest.importorskip(f"translate.storage.{module}")
    plain = re.sub(r"(<(ph|it|bpt)\b[^>]*>).*?(</\2>)", "", SAMPLES[name][0])
    units = getattr(storage, store)(io.BytesIO(plain.encode())).units
    found = [(" ".join(unit.source.split()), " ".join((unit.target or "").split())) for unit in units]
    assert found == SAMPLES[name][1]
