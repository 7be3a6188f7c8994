"""eflomal's interface: what its callers rely on."""

import inspect
import io
import tempfile
import tracemalloc
from collections import Counter

import numpy as np
import pytest

import alignkit
import alignkit_data
from alignkit.classical.lexicon import LinkedWords
from alignkit.classical.priors import LexiconPrior
from alignkit.errors import AlignkitError
from alignkit.text.vocabulary import Vocabulary
from alignkit.uses import eflomal
from alignkit.uses.eflomal import pair_scores

FILES = "links_filename_fwd", "links_filename_rev", "scores_filename_fwd", "scores_filename_rev"
WHOLE = slice(None)


@pytest.fixture(scope="module")
def sides():
    """Lines of the sample, some of them blank on one side or both."""
    texts = [alignkit_data.path(f"train.{side}").read_text("utf-8").splitlines(True)[:60] for side in ("de", "en")]
    texts[0][3] = texts[1][5] = texts[0][7] = texts[1][7] = "\n"
    return texts


def counted(source, target, forward, reverse):
    """The five counts, from the definition: a walk over the words of each side in turn."""
    found = [Counter() for _ in range(5)]
    for x, y, f, r in zip(source, target, forward, reverse, strict=True):
        found[0].update((x[s], y[t]) for s, t in f)
        for n, links, words, own in ((0, f, x, 0), (1, r, y, 1)):
            last = -1
            for other in sorted({link[1 - own] for link in links}):
                here = sorted(link[own] for link in links if link[1 - own] == other)
                found[1 + n][here[0] - last] += 1
                last = here[-1]
            found[1 + n][len(words) - last] += 1
            found[3 + n].update(((words[k], c) for k, c in Counter(link[own] for link in links).items()))
    return tuple(found)


def naive_scores(source, target, links, priors):
    """The scores of target sentences, a word and a possible translation at a time."""
    counts, jumps, *_ = counted(source, target, links, links)
    counts, totals = Counter(priors) + counts, Counter()
    for (word, _), n in counts.items():
        totals[word] += n
    types = len({word for y in target for word in y})
    total = jumps.total() + 0.5 * (2 * max(map(len, source)) + 2)
    scores = []
    for x, y, pairs in zip(source, target, links, strict=True):
        costs = []
        for t, word in enumerate(y):
            before = max((t_, s) for s, t_ in [(-1, -1), *pairs] if t_ < t)[1]
            behind = min((t_, s) for s, t_ in [(len(x), len(y)), *pairs] if t_ > t)[1]
            best = 0
            for s, other in enumerate(x):
                own = (s, t) in pairs
                share = (counts[other, word] - own + 0.001) / (totals[other] - own + 0.001 * types)
                around = (jumps[s - before] + 0.5) / total, (jumps[behind - s] + 0.5) / total
                best = max(best, share * (around[0] * around[1]) ** 0.5)
            costs.append(-np.log(best) if best else np.nan)
        scores.append(np.mean(costs) if costs else np.nan)
    return np.array(scores)


def turned(pairs):
    return [(y, x) for x, y in pairs]


@pytest.mark.parametrize(
    ("options", "letters", "quality", "has_prior"),
    [
        ({}, (WHOLE, WHOLE), "normal", False),
        ({}, (WHOLE, WHOLE), "normal", True),
        ({"model": 1, "source_suffix_len": 3}, (slice(-3, None), WHOLE), "fast", False),
        ({"model": 2, "source_suffix_len": 4}, (slice(-4, None), WHOLE), "fast", False),
        (
            {"source_prefix_len": 4, "source_suffix_len": 2, "target_suffix_len": 3},
            (slice(4), slice(-3, None)),
            "normal",
            True,
        ),
        ({"target_prefix_len": 3}, (WHOLE, slice(3)), "normal", True),
    ],
)
def test_links_are_those_of_align_and_scores_those_of_the_definition(
    sides, tmp_path, options, letters, quality, has_prior
):
    """Words are in lower case and cut; so are those of priors, whose counts add up."""
    texts = [
        [[word.lower()[own] for word in line.split()] for line in side]
        for side, own in zip(sides, letters, strict=True)
    ]
    lines, priors = None, Counter()
    if has_prior:
        draw, lines = np.random.default_rng(1), []
        for x, y in zip(sides[0][0].split() * 9, sides[1][0].split() * 9, strict=False):
            n = int(draw.integers(1, 90))
            lines += [f"LEX\t{x.upper()}\t{y}\t{n}\n", "FERF\tx\t1\t9\n", f"LEX\t{x}\t{y.title()}\t0.5\n"]
            priors[x.lower()[letters[0]], y.lower()[letters[1]]] += n + 0.5
    paths = {name: str(tmp_path / name) for name in FILES}
    aligner = eflomal.Aligner(**options)
    aligner.align(io.StringIO("".join(sides[0])), iter(sides[1]), **paths, priors_input=lines)
    found = {name: (tmp_path / name).read_text().split("\n")[:-1] for name in FILES}

    prior = None
    if priors:
        words = [Vocabulary.from_tokens(dict.fromkeys(side)) for side in zip(*priors, strict=True)]
        pairs = np.array([[side.id(word) for side, word in zip(words, pair, strict=True)] for pair in priors])
        prior = LexiconPrior(*words, pairs, np.array([[n, n] for n in priors.values()], np.float32), 1)
    aligned = alignkit.align(*texts, quality=quality, prior=prior).links
    assert found["links_filename_fwd"] == found["links_filename_rev"] == aligned.to_strings()
    links = [list(map(tuple, pairs.tolist())) for pairs in aligned]
    expected = {
        "scores_filename_fwd": naive_scores(*texts, links, priors),
        "scores_filename_rev": naive_scores(
            *texts[::-1], list(map(turned, links)), dict(zip(turned(priors), priors.values(), strict=True))
        ),
    }
    for name, scores in expected.items():
        wanted = np.where(np.isnan(scores), 0, 1.7 * scores - 4.5)
        np.testing.assert_allclose(np.array(found[name], float), wanted, rtol=1e-4, atol=1e-5)
        assert [found[name][m] for m in (3, 5, 7)] == ["-0", "-0", "-0"]


def test_scores_of_links_of_any_shape():
    draw = np.random.default_rng(3)
    sides = [
        [[f"{side}{w}" for w in draw.integers(7, size=n)] for n in draw.integers(6, size=30)] for side in "xy"
    ]
    links = [
        sorted({(int(draw.integers(len(x))), int(draw.integers(len(y)))) for _ in range(draw.integers(5))})
        if x and y
        else []
        for x, y in zip(*sides, strict=True)
    ]
    given = LinkedWords(alignkit.Bitext.from_sentences(*sides), alignkit.Links.from_lists(links))
    words = [Vocabulary.from_tokens([*(f"{side}{n}" for n in range(5)), "unseen"]) for side in "xy"]
    pairs, values = [(1, 1), (2, 5), (5, 2), (3, 1)], np.array([4, 3, 2, 1.5], np.float32)
    prior = LexiconPrior(*words, np.array(pairs), np.stack([values, values], axis=1))
    counts = {
        (words[0].tokens[x], words[1].tokens[y]): n for (x, y), n in zip(pairs, values.tolist(), strict=True)
    }
    for own, priors in ((None, {}), (prior, counts)):
        assert pair_scores(given, own) == pytest.approx(naive_scores(*sides, links, priors), nan_ok=True)
    assert len(given.links.pairs) > 20


def test_a_long_pair_is_scored_in_parts(monkeypatch):
    """Of all its elements at once, not even one array would fit."""
    bitext = alignkit.Bitext.from_sentences([["a", "b"] * 300, ["a"]], [["x", "y", "y"] * 200, []])
    given = LinkedWords(bitext, alignkit.Links.from_lists([[(0, 0), (7, 500), (7, 501)], []]))
    whole = pair_scores(given)
    monkeypatch.setattr("alignkit.uses.eflomal.BLOCK", 1 << 12)
    tracemalloc.start()
    try:
        parts = pair_scores(given)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(parts, whole)
    assert most < 600 * 600 * 8


def test_an_open_file_gets_its_content_block_after_block(sides, monkeypatch):
    """OpusFilter reads the temporary files that it keeps open."""
    monkeypatch.setattr("alignkit.uses.eflomal.FITTED", 12)
    with tempfile.NamedTemporaryFile("w+") as links, tempfile.NamedTemporaryFile("w+") as scores:
        aligner = eflomal.Aligner(model=1)
        aligner.align(sides[0][:20], sides[1][:20], links_filename_rev=links.name, scores_filename_fwd=scores.name)
        assert len(links.readlines()) == len(scores.readlines()) == 20


def test_no_lines_and_blank_lines(tmp_path):
    for lines in ([], ["", " \n"]):
        eflomal.Aligner().align(
            lines, lines, str(tmp_path / "links"), scores_filename_fwd=str(tmp_path / "scores")
        )
        assert (tmp_path / "links").read_text() == "\n" * len(lines)
        assert (tmp_path / "scores").read_text() == "-0\n" * len(lines)


def test_words_are_those_of_split(tmp_path):
    """A no-break space separates words for eflomal's callers, which count them by str.split."""
    text = ["a\u00a0b\tc\udcff\n"] * 3
    eflomal.Aligner().align(text, text, str(tmp_path / "links"), priors_input=["LEX\ta\ta\udcff\t1"])
    assert (tmp_path / "links").read_text() == "0-0 1-1 2-2\n" * 3


def test_priors_are_counts_of_links(sides):
    draw = np.random.default_rng(0)
    words = [[line.split() for line in side] for side in sides]
    links = [[], []]
    for x, y in zip(*words, strict=True):
        for own in links:
            own.append(
                sorted({(int(draw.integers(len(x))), t) for t in range(len(y)) if x and draw.random() < 0.8})
            )
    lines = [[" ".join(f"{s}-{t}" for s, t in pairs) + "\n" for pairs in own] for own in links]
    priors = eflomal.calculate_priors(*map(iter, [*sides, *lines]))
    assert priors == counted(*words, *links)
    assert priors != counted(*words, *links[::-1])


def test_priors_are_written_as_eflomal_does():
    file = io.StringIO()
    lexicon, forward, reverse = {("b", "y"): 1e6, ("a", "z"): 2.5, ("a", "y"): 1}, {2: 3, -1: 4}, {1: 5}
    eflomal.write_priors(file, lexicon, forward, reverse, {("a", 2): 6}, {("z", 1): 7})
    lines = "LEX a y 1;LEX a z 2.5;LEX b y 1e+06;FERF a 2 6;FERR z 1 7;HMMF -1 4;HMMF 2 3;HMMR 1 5;"
    assert file.getvalue() == lines.replace(" ", "\t").replace(";", "\n")


def test_priors_decide_what_the_text_leaves_open(tmp_path):
    source, target = ["Eins zwei"] * 2, ["two one"] * 2
    found = []
    for pairs in ({("eins", "One"): 30, ("ZWEI", "two"): 3e6}, {("eins", "two"): 30, ("zwei", "one"): 30}):
        file = io.StringIO()
        eflomal.write_priors(file, pairs, {1: 3}, {}, {("eins", 1): 5}, {})
        file.seek(0)
        eflomal.Aligner().align(source, target, str(tmp_path / "links"), priors_input=file)
        found.append((tmp_path / "links").read_text().split("\n")[0])
    assert found == ["0-1 1-0", "0-0 1-1"]


def test_a_file_that_cannot_be_written_is_found_before_the_work():
    lines = iter(["a"])
    with pytest.raises(AlignkitError, match="cannot write none/links"):
        eflomal.Aligner().align(lines, ["b"], "none/links")
    assert list(lines) == ["a"]


def test_settings_of_sampling_are_logged(caplog):
    eflomal.Aligner(n_samplers=1, null_prior=0.2)
    assert [record.getMessage() for record in caplog.records] == [
        "n_samplers has no effect here: nothing is sampled"
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eflomal.Aligner(model=4), "eflomal's models are 1, 2 and 3, not 4"),
        (lambda: eflomal.Aligner(model=[3]), "eflomal's models are"),
        (lambda: eflomal.Aligner(source_prefix_len=2.5), "numbers of letters, not 2.5"),
        (lambda: eflomal.Aligner(target_suffix_len=-1), "numbers of letters, not -1"),
        (lambda: eflomal.Aligner().align(["a"], ["b", "c"]), "src_input has 1 lines, trg_input 2"),
        (lambda: eflomal.Aligner().align("a", ["b"]), "src_input must be an open file, a list or a generator"),
        (lambda: eflomal.Aligner().align([b"a"], ["b"]), "a line of src_input must be text"),
        (
            lambda: eflomal.Aligner().align(["a"], ["b"], priors_input=["LEX\ta\tb\t1\n", "LEX\ta\n"]),
            "^priors_input, line 2: is not a line of eflomal's priors",
        ),
        (
            lambda: eflomal.Aligner().align(["a"], ["b"], priors_input=["a\tb\t0.5"]),
            "has probabilities; give lines that",
        ),
        (
            lambda: eflomal.calculate_priors(["a"], ["b"], ["0-0"], []),
            "rev_alignments: has links for 0 pairs, the text has 1",
        ),
        (
            lambda: eflomal.calculate_priors(["a"], ["b", "c"], ["0-0"], ["0-0"]),
            "^mismatched sizes: src_sentences has 1 lines, trg_sentences 2$",
        ),
        (
            lambda: eflomal.calculate_priors(["a"], ["b"], ["0-1"], [""]),
            "^fwd_alignments, line 1: link 0-1 points",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(AlignkitError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_the_signatures_are_those_of_eflomal():
    real = pytest.importorskip("eflomal")
    for name in eflomal.__all__:
        ours, theirs = getattr(eflomal, name), getattr(real, name)
        pairs = (
            [(ours.__init__, theirs.__init__), (ours.align, theirs.align)]
            if name == "Aligner"
            else [(ours, theirs)]
        )
        for a, b in pairs:
            a, b = (inspect.signature(each).parameters.values() for each in (a, b))
            assert [(p.name, p.default) for p in a] == [(p.name, p.default) for p in b]
