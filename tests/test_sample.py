"""The sample bitext keeps what data/README.md promises of it."""

import importlib.util
import re
import sys
import unicodedata
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
TEXTS = ("train.de", "train.en", "test.de", "test.en")

NEAR_DUPLICATE = 0.65  # Jaccard of lower-cased token sets; the closest two sentences of a side have 0.62
LINK = re.compile(r"(\d+)([-p])(\d+)")


def vocabulary(text):
    return frozenset(text.split())


CONJUNCTIONS = vocabulary("weil dass wenn obwohl bevor nachdem als ob während damit bis sobald seit solange")
RELATIVES = vocabulary("der die das den dem deren dessen")
NEGATIONS = vocabulary("nicht nichts nie niemand niemandem niemanden kein keine keinen keinem keiner weder")
PARTICLES = vocabulary("""an auf aus ab ein mit nach um unter vor vorbei weg weiter zu zurück zusammen herum
    herunter hinauf hinaus hinein hinunter los her herbei""")
NEVER_POSSESSIVE = vocabulary("it he she that there what who where here let")


def lines(name):
    text = (SAMPLE / name).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


def side(language):
    return [line.split(" ") for part in ("train", "test") for line in lines(f"{part}.{language}")]


def gold():
    """Per held-out pair the links as (German, kind, English)."""
    matches = [[LINK.fullmatch(link) for link in line.split(" ")] for line in lines("test.gold")]
    assert all(match for pair in matches for match in pair)
    return [[(int(m[1]), m[2], int(m[3])) for m in pair] for pair in matches]


def test_the_package_knows_its_files(monkeypatch):
    """data/ is installed as the import package alignkit_data; here it is loaded from the source tree."""
    data = SAMPLE.parent
    spec = importlib.util.spec_from_file_location(
        "alignkit_data", data / "__init__.py", submodule_search_locations=[str(data)]
    )
    package = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "alignkit_data", package)
    spec.loader.exec_module(package)
    assert {package.path(name) for name in package.FILES} == set(SAMPLE.iterdir())
    with pytest.raises(ValueError, match=r"no sample file 'train\.fr'"):
        package.path("train.fr")


def test_the_text_of_the_option_has_the_pairs_with_gold_links_first():
    for language in ("de", "en"):
        assert lines(f"sample.{language}") == [*lines(f"test.{language}"), *lines(f"train.{language}")]


def test_pair_counts():
    assert len(lines("train.de")) == len(lines("train.en")) == 940
    assert len(lines("test.de")) == len(lines("test.en")) == len(lines("test.gold")) == 100


@pytest.mark.parametrize("name", [*TEXTS, "test.gold"])
def test_layout(name):
    for line in lines(name):
        assert line
        assert line == " ".join(line.split()), line
        assert unicodedata.is_normalized("NFC", line), line


@pytest.mark.parametrize("name", TEXTS)
def test_tokenisation(name):
    token = re.compile(r"[^\W\d_]+(-[^\W\d_]+)*|[.,?!:;\"]|'s|'|o'clock")
    for line in lines(name):
        assert all(token.fullmatch(part) for part in line.split(" ")), line
        assert line[-1] in '.?!"', line
        assert line.count('"') % 2 == 0, line
        assert line[0] == '"' or line[0].isupper(), line


def test_tags_and_subwords_are_those_of_the_held_out_text():
    assert [re.sub("</?b>", "", line) for line in lines("test.tagged.de")] == lines("test.de")
    assert sum("<b>" in line for line in lines("test.tagged.de")) >= 50
    for language in ("de", "en"):
        joined = [line.replace(" ", "").replace("▁", " ").strip() for line in lines(f"test.pieces.{language}")]
        assert joined == lines(f"test.{language}")


def test_quotes_agree():
    for part in ("train", "test"):
        for german, english in zip(lines(f"{part}.de"), lines(f"{part}.en"), strict=True):
            assert german.count('"') == english.count('"'), german
            assert ("?" in german) == ("?" in english), german


@pytest.mark.parametrize("language", ["de", "en"])
def test_no_sentence_twice(language):
    counts = Counter(" ".join(filter(str.isalpha, tokens)).lower() for tokens in side(language))
    assert [sentence for sentence, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("language", ["de", "en"])
def test_no_near_duplicates(language):
    sets = [{token.lower() for token in tokens} for tokens in side(language)]
    for a, b in combinations(sets, 2):
        common = len(a & b)
        assert common <= NEAR_DUPLICATE * (len(a) + len(b) - common), (a, b)


@pytest.mark.parametrize("language", ["de", "en"])
def test_no_slot_templates(language):
    """No two sentences of five tokens or more differ in one token only."""
    seen = {}
    for tokens in side(language):
        if len(tokens) < 5:
            continue
        for k in range(len(tokens)):
            frame = (*tokens[:k], None, *tokens[k + 1 :])
            assert frame not in seen, (tokens, seen[frame])
            seen[frame] = tokens


def test_vocabulary():
    for language, promised in (("de", 1900), ("en", 1500)):
        assert len({token for tokens in side(language) for token in tokens if token.isalpha()}) >= promised


def test_sentence_lengths():
    lengths = [len(tokens) for tokens in side("de")]
    assert min(lengths) >= 3
    assert max(lengths) <= 30
    assert 9 <= sum(lengths) / len(lengths) <= 13
    assert sum(length >= 20 for length in lengths) >= 15


def subordinate(tokens):
    """Whether a conjunction opens the sentence (and a comma ends its clause) or follows a comma."""
    opens = tokens[0].lower() in CONJUNCTIONS and "," in tokens
    return opens or any(a == "," and b in CONJUNCTIONS for a, b in pairwise(tokens))


def test_variety():
    german = side("de")
    lower = [[token.lower() for token in tokens] for tokens in german]
    assert sum(subordinate(tokens) for tokens in german) >= 130
    assert sum(any(a == "," and b in RELATIVES for a, b in pairwise(tokens)) for tokens in german) >= 50
    assert sum(not NEGATIONS.isdisjoint(tokens) for tokens in lower) >= 140
    assert sum("?" in tokens for tokens in german) >= 70
    assert sum(tokens[-1] == "!" and '"' not in tokens for tokens in german) >= 45  # imperatives, nearly all
    assert sum('"' in tokens for tokens in german) >= 30
    separable = [tokens[-2] for tokens in german if tokens[-2] in PARTICLES]
    assert len(separable) >= 70
    assert len(set(separable)) >= 12
    openings = Counter(tokens[0] for tokens in german)
    assert openings.most_common(1)[0][1] <= 0.15 * len(german)


def test_english_has_no_contractions():
    for tokens in side("en"):
        for previous, token in pairwise(["", *tokens]):
            assert "'" not in token or token in ("'s", "'", "o'clock"), tokens
            assert token != "'s" or previous.lower() not in NEVER_POSSESSIVE, tokens


def test_gold_is_well_formed():
    for links, german, english in zip(gold(), lines("test.de"), lines("test.en"), strict=True):
        positions = [(i, j) for i, _, j in links]
        assert positions == sorted(set(positions)), german  # in order, and none both sure and possible
        assert max(i for i, _ in positions) < len(german.split()), german
        assert max(j for _, j in positions) < len(english.split()), english


def test_gold_covers_the_text():
    """Most tokens of either side are linked, with both kinds of links, and most links are sure."""
    links = gold()
    kinds = Counter(kind for pair in links for _, kind, _ in pair)
    assert kinds["-"] >= 1000
    assert 50 <= kinds["p"] <= 0.15 * kinds["-"]
    for end, language in ((0, "de"), (2, "en")):
        lengths = [len(line.split()) for line in lines(f"test.{language}")]
        linked = [len({link[end] for link in pair}) for pair in links]
        assert sum(linked) >= 0.95 * sum(lengths)
        assert all(a >= 0.75 * b for a, b in zip(linked, lengths, strict=True))


def test_gold_links_punctuation_to_punctuation():
    for pair, german, english in zip(gold(), lines("test.de"), lines("test.en"), strict=True):
        de, en = german.split(), english.split()
        linked = [(de[i], en[j]) for i, _, j in pair]
        assert all(a == b for a, b in linked if not (a.isalpha() and b[-1].isalpha())), german
        assert (len(de) - 1, "-", len(en) - 1) in pair, german


@pytest.mark.parametrize("language", ["de", "en"])
def test_held_out_words_occur_in_training(language):
    """No held-out sentence is in the training text, but nearly all its longer words are."""
    train, test = lines(f"train.{language}"), lines(f"test.{language}")
    assert set(train).isdisjoint(test)
    known = {token.lower() for line in train for token in line.split()}
    longer = [token.lower() for line in test for token in line.split() if token.isalpha() and len(token) > 3]
    assert len(longer) >= 400
    assert sum(word in known for word in longer) >= 0.97 * len(longer)
