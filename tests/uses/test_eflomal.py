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
from alignkit.errors import AlignkitError
from alignkit.uses import eflomal
from alignkit.uses.eflomal import JUMP, PAIR, pair_scores

COUNT = 120


@pytest.fixture(scope="module")
def sides():
    """Lines of the sample, some of them blank on one side or both."""
    texts = [
        alignkit_data.path(f"train.{side}").read_text("utf-8").splitlines(True)[:COUNT] for side in ("de", "en")
    ]
    texts[0][3] = texts[1][5] = texts[0][7] = texts[1][7] = "\n"
    return texts


def words(sides):
    return [[line.split() for line in side] for side in sides]


@pytest.fixture(scope="module")
def aligned(sides, tmp_path_factory):
    """{kind: the lines} of one call, whose inputs are a file and a generator."""
    folder = tmp_path_factory.mktemp("aligned")
    names = ["links_filename_fwd", "links_filename_rev", "scores_filename_fwd", "scores_filename_rev"]
    paths = {name: str(folder / name) for name in names}
    eflomal.Aligner().align(io.StringIO("".join(sides[0])), (line for line in sides[1]), **paths)
    return {name: (folder / name).read_text().split("\n")[:-1] for name in names}


def test_links_are_those_of_align(sides, aligned):
    links = alignkit.align(*words(sides)).links.to_strings()
    assert aligned["links_filename_fwd"] == aligned["links_filename_rev"] == links
    assert [links[m] for m in (3, 5, 7)] == ["", "", ""]
    assert alignkit.symmetrize(links, links).to_strings() == links


def naive_scores(source, target, links, priors):
    """The scores of target sentences, a word and a possible translation at a time."""
    counts, jumps = Counter(priors), Counter()
    for x, y, pairs in zip(source, target, links, strict=True):
        counts.update((x[s], y[t]) for s, t in pairs)
        last = -1
        for t in range(len(y)):
            if own := [s for s, other in pairs if other == t]:
                jumps[min(own) - last] += 1
                last = max(own)
        jumps[len(x) - last] += 1
    longest, types = max(map(len, source)), len({word for y in target for word in y})
    total = sum(jumps.values()) + JUMP * (2 * longest + 2)
    scores = []
    for x, y, pairs in zip(source, target, links, strict=True):
        costs = []
        for t, word in enumerate(y):
            before = max((t_, s) for s, t_ in [(-1, -1), *pairs] if t_ < t)[1]
            behind = min((t_, s) for s, t_ in [(len(x), len(y)), *pairs] if t_ > t)[1]
            best = 0
            for s, other in enumerate(x):
                own = (s, t) in pairs
                share = counts[other, word] - own + PAIR
                share /= sum(n for (e, _), n in counts.items() if e == other) - own + PAIR * types
                around = (jumps[s - before] + JUMP) / total, (jumps[behind - s] + JUMP) / total
                best = max(best, share * (around[0] * around[1]) ** 0.5)
            costs.append(-np.log(best) if best else np.nan)
        scores.append(np.mean(costs) if costs else np.nan)
    return np.array(scores)


def test_scores_are_those_of_the_definition(tmp_path):
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
    counts = {("x1", "y1"): 4.0, ("x2", "unseen"): 3.0, ("unseen", "y2"): 2.0, ("x3", "y1"): 1.5}
    lines = [f"LEX\t{x}\t{y}\t{n}" for (x, y), n in counts.items()]
    prior = eflomal._read_priors(lines, tmp_path / "priors", slice(None), slice(None))
    given = LinkedWords(alignkit.Bitext.from_sentences(*sides), alignkit.Links.from_lists(links))
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


def test_scores_tell_mismatched_pairs(tmp_path):
    """Better than the probabilities of the model that was fitted on them."""
    source, target = (alignkit_data.path(f"train.{side}").read_text("utf-8").splitlines() for side in ("de", "en"))
    target[::5] = target[5::5] + target[:1]
    paths = [str(tmp_path / name) for name in ("forward", "reverse")]
    eflomal.Aligner().align(source, target, scores_filename_fwd=paths[0], scores_filename_rev=paths[1])
    scores = sum(np.loadtxt(path) for path in paths)
    logs = alignkit.align(source, target).sentence_scores.sum(axis=1)
    areas = [np.mean(each[::5][:, None] > np.delete(each, np.s_[::5])) for each in (scores, -logs)]
    assert 1 - areas[0] < 0.5 * (1 - areas[1])


def test_blank_pairs_have_eflomals_score(aligned):
    for name in ("scores_filename_fwd", "scores_filename_rev"):
        assert [aligned[name][m] for m in (3, 5, 7)] == ["-0", "-0", "-0"]


def test_an_open_file_gets_its_content(sides):
    """OpusFilter reads the temporary files that it keeps open."""
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
    text = ["a\u00a0b\tc\n"] * 3
    eflomal.Aligner().align(text, text, str(tmp_path / "links"))
    assert (tmp_path / "links").read_text() == "0-0 1-1 2-2\n" * 3


def counted(source, target, forward, reverse):
    """The five counts, from the definition: a walk over the words of each side in turn."""
    found = [Counter() for _ in range(5)]
    for x, y, f, r in zip(source, target, forward, reverse, strict=True):
        x, y = x.split(), y.split()
        f, r = ([tuple(map(int, item.split("-"))) for item in line.split()] for line in (f, r))
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


def test_priors_are_counts_of_links(sides):
    draw = np.random.default_rng(0)
    lines = [[], []]
    for x, y in zip(*sides, strict=True):
        width, height = len(x.split()), len(y.split())
        for links in lines:
            drawn = sorted(
                {(int(draw.integers(width)), t) for t in range(height) if width and draw.random() < 0.8}
            )
            links.append(" ".join(f"{s}-{t}" for s, t in drawn) + "\n")
    priors = eflomal.calculate_priors(*map(iter, [*sides, *lines]))
    assert priors == counted(*sides, *lines)
    assert priors != counted(*sides, *lines[::-1])
    file = io.StringIO()
    eflomal.write_priors(file, *priors)
    kinds = [line.split("\t")[0] for line in file.getvalue().splitlines()]
    sizes = dict(zip(("LEX", "HMMF", "HMMR", "FERF", "FERR"), map(len, priors), strict=True))
    assert Counter(kinds) == sizes
    assert kinds == sorted(kinds, key=("LEX", "FERF", "FERR", "HMMF", "HMMR").index)
    word, translation = min(priors[0])
    assert file.getvalue().startswith(f"LEX\t{word}\t{translation}\t{priors[0][word, translation]}\n")


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


def test_prefixes_stand_for_words(tmp_path, sides):
    links = tmp_path / "links"
    eflomal.Aligner(source_prefix_len=4, target_suffix_len=3).align(*sides, str(links))
    source, target = words(sides)
    short = [[word[:4] for word in line] for line in source], [[word[-3:] for word in line] for line in target]
    assert links.read_text().split("\n")[:-1] == alignkit.align(*short).links.to_strings()


def test_settings_of_sampling_are_logged(caplog):
    eflomal.Aligner(n_samplers=1, null_prior=0.2)
    assert [record.getMessage() for record in caplog.records] == [
        "n_samplers has no effect here: nothing is sampled"
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eflomal.Aligner(model=4), "eflomal's models are 1, 2 and 3, not 4"),
        (lambda: eflomal.Aligner().align(["a"], ["b", "c"]), "src_input has 1 lines, trg_input 2"),
        (lambda: eflomal.Aligner().align("a", ["b"]), "src_input must be an open file, a list or a generator"),
        (lambda: eflomal.Aligner().align([b"a"], ["b"]), "a line of src_input must be text"),
        (lambda: eflomal.Aligner().align(["a"], ["b"], "none/links"), "cannot write none/links"),
        (
            lambda: eflomal.Aligner().align(["a"], ["b"], priors_input=["LEX\ta\tb\t1", "LEX\ta"]),
            "^priors_input, line 2: is not a line of eflomal's priors",
        ),
        (lambda: eflomal.Aligner().align(["a"], ["b"], priors_input=["a\tb\t0.5"]), "has probabilities"),
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
