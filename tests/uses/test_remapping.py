"""Links moved between tokenizations: against a naive reference, over subwords and back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext, Corpus
from alignkit.uses.remapping import first_differing, remap_links, remap_through, token_map


def cut(text, cuts):
    """The tokens of a text cut at these places."""
    bounds = [0, *sorted(c for c in set(cuts) if 0 < c < len(text)), len(text)]
    return [text[a:b] for a, b in pairwise(bounds) if a < b]


def naive(links, old, new):
    """Links of one pair, character by character."""
    owners = []
    for before, after in zip(old, new, strict=True):
        spread = [[i for i, token in enumerate(tokens) for _ in token] for tokens in (before, after)]
        owners.append({i: {b for a, b in zip(*spread, strict=True) if a == i} for i in range(len(before))})
    return sorted({(s, t) for x, y in links for s in owners[0][x] for t in owners[1][y]})


texts = st.text("abcdé", max_size=9)
cuts = st.sets(st.integers(1, 8))
pairs = st.lists(
    st.tuples(texts, texts, cuts, cuts, cuts, cuts, st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)))),
    max_size=5,
)


@given(pairs, st.sampled_from([1, 4, 1 << 22]))
@settings(max_examples=50, deadline=None)
def test_links_are_those_of_a_naive_reference(cases, most):
    old = [(cut(x, a), cut(y, b)) for x, y, a, b, _, _, _ in cases]
    new = [(cut(x, c), cut(y, d)) for x, y, _, _, c, d, _ in cases]
    links = [
        [(s, t) for s, t in case[-1] if s < len(x) and t < len(y)] for case, (x, y) in zip(cases, old, strict=True)
    ]
    bitexts = [Bitext.from_sentences([x for x, _ in each], [y for _, y in each]) for each in (old, new)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alignkit.uses.remapping._MOST_LINKS", most)
        patch.setattr("alignkit.uses.remapping.BLOCK", most)
        found = remap_links(Links.from_lists(links), *bitexts)
    wanted = [naive(*one) for one in zip(links, old, new, strict=True)]
    assert [[tuple(link) for link in pair.tolist()] for pair in found] == wanted
    finer = [([*x], [*y]) for x, y, *_ in cases]  # letters
    letters = Bitext.from_sentences([x for x, _ in finer], [y for _, y in finer])
    back = remap_links(remap_links(Links.from_lists(links), bitexts[0], letters), letters, bitexts[0])
    assert back.to_strings() == Links.from_lists(links).to_strings()


def bitext(*pairs):
    return Bitext.from_sentences([x.split() for x, _ in pairs], [y.split() for _, y in pairs])


RAW = ("Er sagt: „Hallo, Welt!“", 'He says, "hello world!"')
TOKENIZED = ("Er sagt : „ Hallo , Welt ! “", "He says , &quot; hello world ! &quot;")
PIECES = ("▁Er ▁sagt : ▁ „ Hall o , ▁Welt ! “", '▁He ▁say s , ▁" hello ▁world ! "')
BPE = ("Er sa@@ gt@@ : „@@ Hallo@@ , Welt@@ !@@ “", 'He sa@@ ys@@ , "@@ hel@@ lo world@@ !@@ "')
WORDPIECE = ("er sagt : „ hallo , we ##lt ! “", 'he says , " hello world ! "')
LINKS = Links.from_strings(["0-0 1-1 2-2 3-3 4-4 6-5 7-6 8-7"])


def test_words_subwords_and_spaces():
    found = remap_links(LINKS, bitext(TOKENIZED), bitext(PIECES))
    assert found.to_strings() == ["0-0 1-1 1-2 2-3 3-4 4-4 5-5 6-5 8-6 9-7 10-8"]
    assert remap_links(found, bitext(PIECES), bitext(TOKENIZED)).to_strings() == LINKS.to_strings()
    assert remap_links(LINKS, bitext(TOKENIZED), bitext(RAW)).to_strings() == ["0-0 1-1 2-2 3-3"]
    assert remap_links(found, bitext(PIECES), bitext(RAW)).to_strings() == ["0-0 1-1 2-2 3-3"]


@pytest.mark.parametrize("fine", [PIECES, TOKENIZED, BPE, WORDPIECE], ids=["pieces", "words", "bpe", "wordpiece"])
def test_spaces_to_any_finer_tokenization_and_back(fine):
    links = Links.from_strings(["0-0 1-1 1-2 3-3"])
    there = remap_links(links, bitext(RAW), bitext(fine))
    assert remap_links(there, bitext(fine), bitext(RAW)).to_strings() == links.to_strings()


def test_a_mark_without_letters_belongs_to_what_follows():
    old, new = bitext(("▁ a b ▁", "y")), bitext(("ab", "y"))
    assert remap_links(Links.from_strings(["0-0"]), old, new).to_strings() == ["0-0"]
    assert remap_links(Links.from_strings(["3-0"]), old, new).to_strings() == ["0-0"]
    assert remap_links(Links.from_strings(["0-0"]), new, old).to_strings() == ["0-0 1-0 2-0 3-0"]
    assert remap_links(Links.from_strings(["0-0"]), bitext(("▁", "y")), bitext(("▁ ▁", "y"))).to_strings() == [""]


def test_a_link_of_a_mark_without_letters_is_one_of_the_whole_piece_after_it():
    old, new = bitext(("▁a ▁ ▁ bcd ▁ef", "y")), bitext(("a b@@ c@@ d e@@ f", "y"))
    for link in ("1-0", "2-0", "3-0"):
        assert remap_links(Links.from_strings([link]), old, new).to_strings() == ["1-0 2-0 3-0"]
    for link in ("1-0", "2-0", "3-0"):
        assert remap_links(Links.from_strings([link]), new, old).to_strings() == ["1-0 2-0 3-0"]


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("\ufb01n\u00bd", ["▁fin", "1", "\u2044", "2"]),  # compatibility characters, as nmt_nfkc writes them
        ("\uff21\uff11", ["▁A", "1"]),
        ("Größe", ["▁grö", "sse"]),  # case folded
        ("Größe", ["groß", "##e"]),  # and accents dropped, by BERT's uncased models
        ("a\u200bb\u00a0c", ["▁a", "▁b", "▁c"]),
        ("한국", ["▁한", "국"]),
        ("日本語", ["▁", "日本", "語"]),
        ("😀ä", ["▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "ä"]),  # byte fallback
        ("\ufb01\u00dc\u00e9", ["▁fi", "<0xC3>", "<0x9C>", "<0xC3>", "<0xA9>"]),  # and compatibility characters
        ("für", ["ĠfÃ", "¼", "r"]),  # byte-level BPE
        ("a&b", ["a", "&amp;", "b"]),
        ("<>\"'[]|", ["&lt;", "&gt;", "&quot;", "&apos;", "&#91;", "&#93;", "&#124;"]),
        ("x<0x41>z", ["▁x", "<0x41>z"]),  # a byte is a whole token
        ("ab", ["▁a▁b"]),
        ("!~\u00a1\u00ac\u00ae\u00ff\u00ad", ["Ġ!~Â\u00a1Â\u00ac", "Â\u00aeÃ\u00bfÂ\u0143"]),
        ("f\u00fcr\u65e5", ["Ġf\u00c3\u00bcr", "\u65e5"]),  # not all tokens are bytes
        ("\U0001d400\u0001b\u2029", ["▁ab"]),
        ("gut-bezahlt", ["gut", "@-@", "bezahlt"]),
        ("#tag", ["#", "##tag"]),
        ("##x@@", ["##x@@"]),
    ],
)
def test_normalized_tokens_are_recognized(word, pieces):
    old = Bitext.from_sentences([[word, "x"]], [["y"]])
    new = Bitext.from_sentences([[*pieces, "▁x" if pieces[0].startswith("▁") else "x"]], [["y"]])
    found = remap_links(Links.from_strings(["0-0"]), old, new)
    assert [s for s, _ in found[0].tolist()] == list(range(len(pieces)))
    assert remap_links(found, new, old).to_strings() == ["0-0"]


def test_the_bytes_of_a_character_are_of_its_token():
    old = bitext(("\u2026 \u00dc \u00e9", "y"), ("\u00dc", "y"), ("\u00dc", "y"))
    pieces = "▁... ▁ <0xC3> <0x9C> ▁ <0xC3> <0xA9>"
    new = bitext((pieces, "y"), ("<0xC3>", "y"), ("<0x9C>", "y"))  # a character does not go on in the next line
    found = token_map(old.source, new.source)
    assert found.differs.tolist() == [False, True, True]
    assert list(zip(found.first[:3].tolist(), found.end[:3].tolist(), strict=True)) == [(0, 1), (1, 4), (4, 7)]
    back = token_map(new.source, old.source)
    assert back.first[:7].tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert (back.end[:7] - back.first[:7]).tolist() == [1] * 7


def test_the_message_names_the_style_in_which_most_is_the_same():
    _, _, shown = first_differing(
        [token_map(*map(Corpus.from_sentences, each)) for each in ([[[]], [["▁a"]]],) * 2]
    )
    assert shown == "'a' where the old one has '' (read as sentencepiece, the old one as words)"
    old, new = bitext(("▁das ▁H aus", "y")), bitext(("das Haut", "y"))
    _, _, shown = first_differing((token_map(old.source, new.source), token_map(old.target, new.target)))
    assert shown == "'t' where the old one has 's' (read as words, the old one as sentencepiece)"


def test_the_bytes_of_a_mark_stay_a_character():
    old, new = bitext(("a\u2581b", "y")), bitext(("▁a <0xE2> <0x96> <0x81> b", "y"))
    assert remap_links(Links.from_strings(["0-0"]), old, new).to_strings() == ["0-0 1-0 2-0 3-0 4-0"]


def test_other_text_is_an_error():
    old, new = bitext(("a b", "x"), ("das Haus", "y")), bitext(("ab", "x"), ("das HANS", "z"))
    with pytest.raises(AlignkitError, match=r"source\[1\] .*'ns' where the old one has 'us'"):
        remap_links(Links.from_strings(["0-0", "1-0"]), old, new)
    with pytest.raises(AlignkitError, match="'' where the old one has 'y'"):
        remap_links(Links.from_strings([""]), bitext(("a", "xy")), bitext(("a", "x")))
    with pytest.raises(AlignkitError, match="link 2-0 points outside"):
        remap_links(Links.from_strings(["2-0", ""]), old, old)
    with pytest.raises(AlignkitError, match="1 lines of links, 2 old and 2 new"):
        remap_links(Links.from_strings(["0-0"]), old, old)
    with pytest.raises(AlignkitError, match="2 lines of links, 2 old and 1 new"):
        remap_links(Links.from_strings(["", ""]), old, old.take(np.array([0])))


def test_links_of_pairs_that_differ_are_dropped_and_no_others():
    old, new = bitext(("a b", "x"), ("das", "y"), ("a b", "x")), bitext(("ab", "x"), ("dos", "y"), ("a b", "x"))
    source, target = token_map(old.source, new.source), token_map(old.target, new.target)
    assert source.differs.tolist() == [False, True, False]
    links = Links.from_strings(["1-0", "0-0", "1-0"])
    assert remap_through(links, source, target).to_strings() == ["0-0", "", "1-0"]
