"""Lexicons that are counted from links."""

from collections import Counter

import pytest

from alignkit.classical.lexicon import LinkedWords, eflomal, moses, tsv
from alignkit.errors import InputError
from alignkit.links.links import Links
from alignkit.text.pairs import read_text

SOURCE, TARGET = ["a b a", "b", "", "a c"], ["x y", "", "z", "y y x"]
LINKS = ["0-0 0-1 2-0", "", "", "0-0 0-1"]


def lines(parts):
    return b"".join(parts).decode().splitlines()


@pytest.fixture
def counts():
    return LinkedWords(read_text(SOURCE, TARGET), Links.from_strings(LINKS))


def naive_weights():
    """Moses' lexical weights from source to target, as its train-model.perl counts them."""
    pairs, totals = Counter(), Counter()
    for x, y, line in zip(SOURCE, TARGET, LINKS, strict=True):
        links = [tuple(map(int, item.split("-"))) for item in line.split()]
        found = [(x.split()[s], y.split()[t]) for s, t in links]
        found += [("NULL", word) for t, word in enumerate(y.split()) if t not in {t for _, t in links}]
        found += [(word, "NULL") for s, word in enumerate(x.split()) if s not in {s for s, _ in links}]
        pairs.update(found)
        totals.update(word for word, _ in found)
    return {pair: count / totals[pair[0]] for pair, count in pairs.items() if pair[1] != "NULL"}


def test_probabilities_are_those_of_moses(counts):
    rows = [line.split() for line in lines(moses(counts.lexicon))]
    found = {(source, target): float(p) for target, source, p in rows}
    assert found == {pair: pytest.approx(p, abs=1e-7) for pair, p in naive_weights().items()}
    parts = tsv(counts.lexicon, counts.reversed.lexicon, counts=counts.table)
    assert lines(parts) == ["a\ty\t0.6\t1\t3", "a\tx\t0.4\t0.666667\t2"]


def test_priors_are_those_of_eflomal(counts):
    found = lines(eflomal(counts))
    assert found[:2] == ["LEX\ta\ty\t3", "LEX\ta\tx\t2"]
    assert found[2:5] == ["FERF\ta\t1\t1", "FERF\ta\t2\t2", "HMMF\t-2\t1"]
    assert [line for line in found if line.startswith("HMMF")] == [f"HMMF\t{j}\t{n}" for j, n in JUMPS.items()]
    assert [line for line in found if line.startswith("FERR")] == ["FERR\tx\t2\t1", "FERR\ty\t1\t3"]


#: -1 to 0; 2 to 0; 0 to the end at 3. -1 to the ends at 1 and 0. -1 to 0; 0 to 0; 0 to the end at 2.
JUMPS = {-2: 1, 0: 1, 1: 3, 2: 2, 3: 1}


def test_a_text_without_links():
    counts = LinkedWords(read_text(["a"], ["x"]), Links.from_strings([""]))
    assert lines(eflomal(counts)) == ["HMMF\t2\t1", "HMMR\t2\t1"]
    assert lines(moses(counts.lexicon)) == ["x NULL 1.0000000"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0\n", "links: has links for 1 pair, the text has 2"),
        ("0-1\n\n", "line 1: link 0-1 points outside"),
    ],
)
def test_links_that_are_not_those_of_the_text(links, message, tmp_path):
    for name, text in (("source", "a\nb\n"), ("target", "x\ny\n"), ("links", links)):
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        LinkedWords.read(*(tmp_path / name for name in ("source", "target", "links")))
