"""The library as its users meet it: five lines to links, arrays, short representations, pictures in notebooks."""

from __future__ import annotations

import inspect
import io
import re
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alignkit
from alignkit.classical.lexicon import lexicon_files, lexicon_of
from alignkit.classical.priors import LexiconPrior
from alignkit.links.formats import Alignment
from alignkit.metrics.aer import count_links
from alignkit.metrics.agreement import agreement_rows, count_agreement
from alignkit.metrics.kendall import sum_tau
from alignkit.pipeline.settings import FitSettings, LinkSettings, ReadSettings

ROOT = Path(__file__).parents[1]
SOURCE = ["das Haus", "das Buch", "ein Buch"]
TARGET = ["the house", "the book", "a book"]


@pytest.fixture(scope="module")
def aligned():
    return alignkit.align(SOURCE, TARGET, method="ibm1", symmetrization="grow-diag-final-and")


def test_five_lines(aligned):
    assert aligned.links.to_strings() == ["0-0 1-1"] * 3
    pair = aligned[1]
    assert pair.words == [("das", "the"), ("Buch", "book")]
    assert [(link.source, link.target) for link in pair.links] == [(0, 0), (1, 1)]
    assert [link.probability for link in pair.links] == aligned.probabilities[2:4].tolist()
    assert alignkit.Links.from_strings(map(str, aligned)).to_strings() == aligned.links.to_strings()
    assert [list(each.source) for each in aligned] == [line.split() for line in SOURCE]
    assert aligned[-1].words == [("ein", "a"), ("Buch", "book")]
    with pytest.raises(IndexError):
        aligned[3]


def test_a_pair_without_links_or_words():
    aligned = alignkit.align([*SOURCE, ""], [*TARGET, "the"], method="ibm1")
    assert aligned[3].links == ()
    assert str(aligned[3]) == ""
    assert "the" in aligned[3].heat_map()


def test_a_slice_is_a_text(aligned):
    part = aligned[::-2]
    assert [pair.words for pair in part] == [aligned[2].words, aligned[0].words]
    assert part.probabilities.tolist() == [link.probability for pair in part for link in pair.links]
    assert part.links.to_strings() == ["0-0 1-1"] * 2
    assert len(aligned[3:]) == 0


def test_a_frame_has_a_row_for_each_link(aligned):
    frame = aligned[1:].to_frame()
    assert list(frame) == ["pair", "source_index", "target_index", "source", "target", "probability"]
    assert frame.iloc[:, :5].values.tolist() == [
        *([0, 0, 0, "das", "the"], [0, 1, 1, "Buch", "book"], [1, 0, 0, "ein", "a"], [1, 1, 1, "Buch", "book"])
    ]
    assert frame.probability.tolist() == aligned.probabilities[2:].tolist()
    assert len(aligned[3:].to_frame()) == 0


def test_what_is_equal(aligned):
    bitext, scores = aligned.bitext, aligned.score("alpha")
    sentences = [[line.split() for line in side] for side in (SOURCE, TARGET)]
    links, same = alignkit.Links.from_strings(["0-0", "1-1"]), alignkit.Links.from_lists([[(0, 0)], [(1, 1)]])
    other = alignkit.Links.from_strings(["0-0 1-1", ""])
    assert links == same != other
    assert links != "0-0"
    assert alignkit.GoldLinks(links, links) == alignkit.GoldLinks(same, same) != alignkit.GoldLinks(other, other)
    assert scores == aligned.score("alpha") != aligned.score("beta")
    assert bitext == alignkit.Bitext.from_sentences(*sentences) != bitext.reversed
    for each in (links, alignkit.GoldLinks(links, links), scores, bitext):
        with pytest.raises(TypeError, match="unhashable"):
            hash(each)


def test_every_option_is_named():
    text = inspect.getdoc(alignkit.align).partition("**options: ")[2].partition("\n\n")[0]
    lists = [[name.strip() for name in each.split(",")] for each in re.findall(r"`:\s([^.]*)\.", text)]
    assert lists == [[each.name for each in fields(part)] for part in (ReadSettings, FitSettings, LinkSettings)]


def test_only_what_is_public_is_listed():
    assert dir(alignkit) == sorted(alignkit.__all__)
    assert not {"annotations", "import_module", "pipeline", "load_aligner"} & {*dir(alignkit)}


@pytest.mark.parametrize("method", ["ibm1", "diagonal", "hmm", "joint"])
def test_translations_are_those_of_the_lexicon(method):
    model = alignkit.align(SOURCE, TARGET, method=method).aligner
    rows = b"".join(lexicon_files(lexicon_of(model), best=2)[""]).decode().splitlines()
    for word in ("das", "Buch"):
        known = word.lower() if method == "joint" else word
        wanted = [row.split("\t")[1:] for row in rows if row.startswith(f"{known}\t")]
        assert [[other, f"{p:.6g}"] for other, p in model.translations(word, best=2)] == wanted
        assert wanted
    assert model.translations("unknown") == []
    everything = model.translations("das", None)
    assert sorted((-p, other) for other, p in everything) == [(-p, other) for other, p in everything]


def test_translations_of_two_directions(aligned):
    assert aligned.aligner.translations("Haus", 1)[0][0] == "house"
    reverse = alignkit.align(SOURCE, TARGET, method="ibm1", reverse=True).aligner
    assert reverse.translations("house", 1)[0][0] == "Haus"


def test_lines_are_a_stream(aligned):
    model = aligned.aligner
    lines = ["das Haus ||| the house", "", "ein Buch ||| a book\n"]
    for each in (
        lines,
        (line.encode() for line in lines),
        io.StringIO("\n".join(line.strip() for line in lines)),
    ):
        blocks = list(alignkit.align_stream(each, model))
        assert [line for block in blocks for line in block.links.to_strings()] == ["0-0 1-1", "", "0-0 1-1"]
    with pytest.raises(alignkit.InputError, match=r"^lines\[1\]: has 0 separators"):
        list(alignkit.align_stream(["a ||| b", "c"], model))
    _, *rest = alignkit.align_stream(["a ||| b", "c"], model, skip=True)
    assert [str(error).partition(":")[0] for block in rest for error in block.errors] == ["lines[1]"]


def test_a_frame_or_pairs_are_a_text(aligned):
    pairs = list(zip(SOURCE, TARGET, strict=True))
    words = [(source.split(), target) for source, target in pairs]
    for each in (pairs, iter(pairs), words, pd.DataFrame({"de": SOURCE, "en": TARGET}, index=[7, 7, 9])):
        assert alignkit.align(each, method="ibm1").bitext == aligned.bitext


def test_an_evaluation_has_counts_and_intervals():
    bitext, gold = alignkit.sample()
    found = alignkit.evaluate(gold, fit_links(bitext.block(0, 100)))
    counts = count_links(gold, fit_links(bitext.block(0, 100)))
    assert (found.sure, found.possible, found.links) == (1076, 1152, counts.found.sum())
    assert found.intervals == counts.intervals()
    assert found.intervals["aer"][0] < found.aer < found.intervals["aer"][1]
    assert [each.sure for each in counts.each()] == counts.sure.tolist()


def fit_links(bitext):
    return alignkit.fit_ibm1(bitext).links(bitext)


def test_the_sample_has_gold_links_of_its_first_pairs():
    bitext, gold = alignkit.sample()
    assert (len(bitext), len(gold)) == (1040, 100)
    lengths = np.array([bitext.target.lengths[:100], bitext.source.lengths[:100]]).T
    assert (gold.possible.pairs[:, ::-1] < lengths[gold.possible.sentences]).all()


def test_a_plot_has_words_and_shades():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib, of the extra plot, is not installed")
    matplotlib.use("agg")
    bitext = alignkit.Bitext.from_sentences([["das"], ["ein", "Buch"]], [["the"], ["a", "book", "."]])
    scores = alignkit.Scores.from_matrices([[[1]], [[0.25, 0.5], [-1, 0], [4, 0]]])
    axes = scores.plot(1, bitext)
    shown = [[label.get_text() for label in each] for each in (axes.get_xticklabels(), axes.get_yticklabels())]
    assert shown == [["ein", "Buch"], ["a", "book", "."]]
    assert axes.images[0].get_array().tolist() == [[0.5, 1], [0, 0], [1, 0]]
    assert scores.plot(axes=axes) is axes
    assert axes.images[-1].get_array().tolist() == [[1]]  # of the first pair


def test_aligners_are_compared_in_one_call(aligned, monkeypatch):
    ibm1 = alignkit.fit_ibm1(aligned.bitext)
    wanted = {"my.ibm1.beta": ibm1.score(aligned.bitext, "beta"), "both": aligned.score("alpha")}
    given = {"my.ibm1.beta": ibm1, "both": aligned.aligner}
    asked, score = [], type(ibm1).score
    monkeypatch.setattr(
        type(ibm1), "score", lambda self, text, kind: asked.append(kind) or score(self, text, kind)
    )
    assert alignkit.compare(given, text=aligned.bitext).equals(alignkit.compare(wanted))
    assert asked == ["beta", "alpha", "alpha"]  # the other is of both directions


def test_lists_are_links(aligned):
    strings, pairs = ["0-0 1-1", "0p1"], [[(0, 0), (1, 1)], np.array([[0, 1]])]
    links = alignkit.Links.from_strings(strings)
    for each in (links, strings, pairs, iter(strings)):
        assert alignkit.symmetrize(each, links, "intersection") == links
    gold = alignkit.GoldLinks(alignkit.Links.from_strings(["0-0 1-1", ""]), links)
    assert alignkit.evaluate(strings, pairs) == alignkit.evaluate(gold, links)
    assert alignkit.evaluate(links, links).aer == 0
    assert alignkit.evaluate(["0-0 1-1"] * 3, aligned).aer == 0
    assert alignkit.symmetrize(aligned, list(aligned)) == aligned.links


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a: alignkit.align(["a b", None], TARGET),
            "source sentence at index 1 must be text or a list .* not 'None'",
        ),
        (
            lambda a: alignkit.align(SOURCE, [float("nan")] * 3),
            "target sentence at index 0 .* not 'nan'; a blank one is",
        ),
        (lambda a: alignkit.align([["a", 5]], [["b"]]), "the sentence at index 0 has 5 as a word; words are text"),
        (
            lambda a: alignkit.Bitext.from_sentences([["a"], float("nan")], [["b"], ["c"]]),
            "the sentence at index 1 must be a list of words, not 'nan'",
        ),
        (lambda a: alignkit.align(5, 6), "source sentences must be a list, not '5'"),
        (lambda a: alignkit.align(SOURCE, TARGET, threshold="0.5"), "threshold must be float . None, not '0.5'"),
        (lambda a: alignkit.align(SOURCE, TARGET, iterations=2.5), "iterations must be int . None, not 2.5"),
        (lambda a: alignkit.align(SOURCE, TARGET, lowercase="no"), "lowercase must be bool, not 'no'"),
        (lambda a: alignkit.align(SOURCE, TARGET, method=["ibm1"]), "method must be str"),
        (
            lambda a: alignkit.align(SOURCE, TARGET, threads="2"),
            "number of threads must be a whole number, not '2'",
        ),
        (lambda a: alignkit.align(SOURCE, TARGET, settings={}), "settings must be AlignSettings, not {}"),
        (lambda a: alignkit.align(SOURCE, TARGET, prior={"das": "the"}), "a prior must be a lexicon or its file"),
        (lambda a: alignkit.align(SOURCE, TARGET, embeddings=5), "embeddings must be an encoder or a file's name"),
        (lambda a: alignkit.align(SOURCE, TARGET, model=5), "a model must be an aligner or its file, not 5"),
        (lambda a: alignkit.align(SOURCE, TARGET, start=5), "a model must be an aligner or its file, not 5"),
        (lambda a: alignkit.align_stream(5, a.aligner), "a stream must be one of bytes, or lines, not '5'"),
        (lambda a: list(alignkit.align_stream([None], a.aligner)), "a line must be text, not None"),
        (
            lambda a: list(alignkit.align_stream(["a ||| b\n\n"], a.aligner)),
            "a line cannot have a line end within it",
        ),
        (
            lambda a: alignkit.align(SOURCE, TARGET, model=[a.aligner]),
            "a pair of opposite directions, not a list of 1",
        ),
        (lambda a: alignkit.align(SOURCE, TARGET, model=[a.aligner] * 3), "not a list of 3"),
        (lambda a: a.aligner.translations(5), "a word must be text, not 5"),
        (
            lambda a: alignkit.align(["a \ud83d"], ["b"]),
            "sentence at index 0 has half a character and is not text",
        ),
        (lambda a: alignkit.align([("das", "Haus")]), "two single words may be pairs of them or sentences"),
        (lambda a: alignkit.align([SOURCE, TARGET]), r"a list of tuples \(source, target\) has both"),
        (
            lambda a: alignkit.align(pd.DataFrame({"id": [1], "de": ["a"], "en": ["b"]})),
            "two columns.* not 3: id,",
        ),
        (lambda a: alignkit.align(pd.DataFrame({"a": ["b"]}), ["c"]), "must be a list, not a DataFrame"),
        (lambda a: alignkit.align({"das Haus": 1}, ["c"]), "source sentences must be a list, not a dict"),
        (lambda a: alignkit.evaluate(["0-0", "x"], a.links), r"^gold\[1\]: 'x' is not a link"),
        (lambda a: alignkit.remap_links(["", "", "0-9"], a.bitext, a.bitext), r"^links\[2\]: link 0-9 points"),
        (lambda a: alignkit.compare({"a": a.aligner}), "a is an aligner; give the Bitext"),
        (lambda a: a.score().plot(0, a[:1].bitext), "scores are of another text"),
        (lambda a: a.score().plot(len(a)), r"^there is no pair \d+ in scores of \d+ pairs"),
        (
            lambda a: alignkit.train(SOURCE, TARGET, output="r", preset="large"),
            "'large'; choose from paper, small",
        ),
        (lambda a: alignkit.fit_ibm1(SOURCE), "a text must be a Bitext"),
        (lambda a: alignkit.fit_hmm((SOURCE, TARGET)), "a text must be a Bitext"),
        (lambda a: a.aligner.links(SOURCE), "a text must be a Bitext"),
        (lambda a: alignkit.align(SOURCE, TARGET).aligner.links("das Haus"), "a text must be a Bitext"),
        (lambda a: alignkit.fit_hmm(a.bitext).score(SOURCE, "alpha"), "a text must be a Bitext"),
        (lambda a: alignkit.symmetrize("0-0", "0-0"), "not the string '0-0'"),
        (lambda a: alignkit.symmetrize([[(0, -1)]], [[(0, 0)]]), "whole numbers from 0.*negative"),
        (lambda a: alignkit.evaluate(None, a.links), "links must be a list"),
        (lambda a: alignkit.Links.from_strings([None]), "the links of a sentence pair must be text, not None"),
        (lambda a: alignkit.Links.from_lists([[(0.5, 1)]]), "whole numbers from 0"),
        (lambda a: alignkit.Links.from_lists([[(10**12, 1)]]), "whole numbers from 0"),
        (lambda a: alignkit.agreement([[1]], [[1]], seed="a"), "seed must be int, not 'a'"),
        (lambda a: alignkit.compare([[1]]), "scores must be a dict"),
        (lambda a: alignkit.compare({"a": [[1]]}, None), "a metric must be a name or a Metric, not None"),
        (lambda a: alignkit.load(3), "must be a file or folder, not 3"),
        (lambda a: alignkit.read_bitext(SOURCE, TARGET), "Bitext.from_sentences takes sentences, not "),
        (lambda a: alignkit.read_links(["0-0"]), "given by its path, not "),
        (lambda a: alignkit.fit_ibm1(a.bitext, 3), "passed by name; settings must be IBM1Settings, not 3"),
        (lambda a: alignkit.symmetrize(a.links, a.links, 3), "cannot symmetrize by 3"),
        (lambda a: alignkit.symmetrize(a.links, a.links, ["union"]), "cannot symmetrize by"),
        (lambda a: alignkit.fit_ibm1(a.bitext, alignkit.HMMSettings), "must be IBM1Settings, not <class"),
        (
            lambda a: alignkit.fit_ibm1(a.bitext, alignkit.DiagonalSettings()),
            "be IBM1Settings, not DiagonalSettings",
        ),
        (lambda a: alignkit.fit_diagonal(a.bitext, alignkit.IBM1Settings()), "must be DiagonalSettings, not IBM1"),
        (lambda a: alignkit.fit_hmm(a.bitext, alignkit.IBM1Settings()), "must be HMMSettings, not IBM1Settings"),
        (lambda a: alignkit.fit_joint(a.bitext, alignkit.IBM1Settings()), "must be HMMSettings, not IBM1Settings"),
        (
            lambda a: alignkit.fit_ibm1(a.bitext, prior="lexicon.tsv"),
            "a prior must be a lexicon, .* not 'lexicon.tsv'",
        ),
        (lambda a: alignkit.fit_hmm(a.bitext, prior=1), "a prior must be a lexicon"),
        (lambda a: alignkit.fit_joint(a.bitext, prior={}), "a prior must be a lexicon"),
        (lambda a: alignkit.fit_ibm1(a.bitext, start=a.aligner), "the model to start from must be IBM1, not"),
        (lambda a: alignkit.fit_hmm(a.bitext, start=3), "the model to start from must be HMM, not 3"),
        (lambda a: alignkit.fit_joint(a.bitext, start=alignkit.IBM1), "the model to start from must be JointHMM"),
        (lambda a: alignkit.fit_joint(a.bitext, embeddings="e5"), "embeddings must have levels, .* not 'e5'"),
        (
            lambda a: alignkit.fit_joint(a.bitext, share_of_text=1.5),
            r"share_of_text must lie in \[0, 1\], not 1.5",
        ),
        (lambda a: alignkit.fit_joint(a.bitext, share_of_text=-1), "share_of_text must lie in"),
        (
            lambda a: alignkit.agreement([[1]], [[1]], seed=1 << 63),
            r"a seed must be at least 0 and below 2\^63, not 9",
        ),
        (lambda a: alignkit.agreement([[1]], [[1]], seed=-1), "a seed must be at least 0"),
        (lambda a: alignkit.remap_links(a.links, SOURCE, TARGET), "a text must be a Bitext"),
    ],
)
def test_what_is_wrong_is_said(aligned, call, message):
    with pytest.raises(alignkit.AlignkitError, match=message) as caught:
        call(aligned)
    assert "\n" not in str(caught.value)


lists = st.lists(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=5), max_size=5)


@given(lists)
def test_links_to_strings_and_back(sentences):
    links = alignkit.Links.from_lists(sentences)
    strings = links.to_strings()
    assert strings == [" ".join(f"{s}-{t}" for s, t in sorted(set(one))) for one in sentences]
    again = alignkit.Links.from_strings(strings)
    assert np.array_equal(again.pairs, links.pairs)
    assert np.array_equal(again.offsets, links.offsets)


def test_strings_that_are_no_links():
    with pytest.raises(alignkit.AlignkitError, match=r"^links\[1\]: 'x' is not a link"):
        alignkit.Links.from_strings(["0-0", "x"])
    with pytest.raises(alignkit.AlignkitError, match=r"as \['0-0'\]"):
        alignkit.Links.from_strings("0-0")


def test_arrays_are_scores():
    draw = np.random.default_rng(1)
    u, v = (list(draw.random((4, 3, 7))) for _ in "uv")
    scores = [alignkit.Scores.from_matrices(each) for each in (u, v)]
    for measure in (alignkit.agreement, alignkit.kendall):
        wanted = measure(*scores)
        assert measure(u, v) == wanted
        assert measure(np.stack(u), np.stack(v)) == wanted
        assert measure(np.stack(u).tolist(), tuple(v)) == wanted
        one = measure(u[0], v[0], resamples=0)
        assert measure(u[0].tolist(), v[:1], resamples=0).rows == one.rows == 3
    table = alignkit.compare({"u": u, "v": scores[1]}, percent=30)
    assert table.agreement.tolist() == [
        alignkit.agreement(u, v, 30).agreement,
        alignkit.agreement(v, u, 30).agreement,
    ]
    assert alignkit.compare({"u": u, "v": v}, "tau").tau[0] == alignkit.kendall(u, v).tau


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((1, 1, 1, 1)), [np.zeros((2, 2)), np.zeros(2)], 5, "ab"])
def test_arrays_that_are_no_scores(wrong):
    with pytest.raises(alignkit.AlignkitError, match="matrix for each sentence pair"):
        alignkit.agreement(wrong, wrong)


def test_nan_is_no_score():
    with pytest.raises(alignkit.AlignkitError, match="NaN"):
        alignkit.kendall(np.full((2, 2), np.nan), np.zeros((2, 2)))


def test_compare_needs_a_known_metric():
    with pytest.raises(alignkit.AlignkitError, match="agreement, tau"):
        alignkit.compare({"u": np.zeros((2, 2))}, "rho")
    with pytest.raises(alignkit.AlignkitError, match="no option 'seeds'"):
        alignkit.compare({"u": np.zeros((2, 2))}, seeds=3)


def test_every_public_object_is_a_short_line(aligned):
    bitext = alignkit.Bitext.from_sentences(*([f"{x}{i} {x}".split() for i in range(999)] for x in "xy"))
    links = alignkit.Links.from_lists([[(0, 0)]] * 999)
    gold = alignkit.GoldLinks(links, links)
    models = [
        fit(bitext) for fit in (alignkit.fit_ibm1, alignkit.fit_hmm, alignkit.fit_joint, alignkit.fit_diagonal)
    ]
    scores = models[0].score(bitext)
    shown = [
        *(bitext, bitext.source, bitext.source.vocabulary, links, gold, *models, scores, aligned, aligned[0]),
        alignkit.Symmetrized(models[0], alignkit.fit_ibm1(bitext.reversed)),
        alignkit.cooccurrence(bitext),
        alignkit.agreement(scores, scores),
        alignkit.evaluate(gold, links),
        models[1].forward,
        LexiconPrior(
            *([bitext.source.vocabulary] * 2), np.zeros((999, 2), np.int32), np.zeros((999, 2), np.float32)
        ),
        Alignment(links, probabilities=np.ones(999)),
        *(count_links(gold, links), count_agreement(scores, scores), agreement_rows(scores, scores)),
        sum_tau(scores, scores),
        alignkit.align(SOURCE, TARGET, method="ibm1", reverse=True).aligner,
    ]
    for each in shown:
        line = repr(each)
        assert line.startswith(f"{type(each).__name__}("), line
        assert "\n" not in line
        assert len(line) <= 320, line
    assert repr(models[0]).startswith("IBM1(1000 source and 1000 target words")


def cells(html):
    """The tables of an HTML fragment: the tooltips of their cells, row by row, and the words beside them."""
    root = ElementTree.fromstring(html)
    for table in root.iter("table"):
        rows = list(table.iter("tr"))
        values = [[cell.get("title") for cell in row.iter("td")] for row in rows[1:]]
        yield values, [cell.text for cell in rows[0].iter("th")][1:], [row.find("th").text for row in rows[1:]]


def test_pictures_in_notebooks(aligned):
    html = alignkit.Scores.from_matrices([[[0.25, 0.5, -1], [0, 0, 0]], *[[[np.inf]]] * 6])._repr_html_()
    tables = list(cells(html))
    assert len(tables) == 5
    assert "first 5 of them" in html
    assert tables[0] == ([["0.25", "0.5", "-1"], ["0", "0", "0"]], ["0", "1", "2"], ["0", "1"])
    assert [html.count(f", {share})") for share in ("0.5", "1")] == [1, 1]
    values, source, target = next(cells(aligned._repr_html_()))
    assert (source, target) == (["das", "Haus"], ["the", "house"])
    assert values[0][1] == values[1][0] == "0"
    assert float(values[1][1]) == pytest.approx(aligned.probabilities[1], rel=1e-3)


def test_pictures_of_what_is_odd_or_large():
    words = ["<b>&", '"']
    html = alignkit.align([words] * 7, [["x", "</td>"]] * 7, method="ibm1")._repr_html_()
    tables = list(cells(html))
    assert len(tables) == 5
    assert "7 aligned pairs, the first 5 of them shown" in html
    assert tables[0][1:] == (words, ["x", "</td>"])
    ((values, source, _),) = cells(alignkit.align(["a b c"], [" ".join(["x"] * 500)], method="ibm1")._repr_html_())
    assert (len(values), len(source)) == (60, 3)
    ((values, source, _),) = cells(alignkit.Scores.from_matrices([np.ones((3, 500))])._repr_html_())
    assert (len(values), len(values[0]), len(source)) == (3, 60, 60)


def test_load_reads_whatever_was_saved(tmp_path, aligned):
    saved = {"m.npz": aligned.aligner, "s.npz": aligned.score("alpha"), "b.npz": aligned.bitext}
    for name, each in saved.items():
        each.save(tmp_path / name)
        assert type(alignkit.load(tmp_path / name)) is type(each)
    assert np.array_equal(alignkit.load(tmp_path / "s.npz").values, saved["s.npz"].values)
    assert alignkit.load(tmp_path / "b.npz").fingerprint() == aligned.bitext.fingerprint()
    assert alignkit.load(tmp_path / "m.npz", threads=1).threads == 1
    for wrong in (tmp_path / "none", ROOT / "README.md"):
        with pytest.raises(alignkit.InputError, match=wrong.name):
            alignkit.load(wrong)


def test_files_of_links(tmp_path):
    place = tmp_path / "links"
    place.write_text("1-1 1p2\n\n0-3:0.5\n")
    assert alignkit.read_links(place).to_strings() == ["1-1 1-2", "", "0-3"]
    gold = alignkit.read_gold(place)
    assert gold.sure.to_strings() == ["1-1", "", "0-3"]
    assert alignkit.read_gold(place, base="0").possible.to_strings() == ["1-1 1-2", "", "0-3"]
    place.write_text("1-1 1p2\n")
    assert alignkit.read_gold(place, base="1").possible.to_strings() == ["0-0 0-1"]
    place.write_text("0-0\n1:1\n")
    with pytest.raises(alignkit.InputError, match="links, line 2"):
        alignkit.read_links(place)


def test_a_one_based_file_is_right_about_itself(tmp_path, caplog):
    place = tmp_path / "links"
    place.write_text("1-1 2-2 3-3\n2-1 1-2\n" * 10)
    assert alignkit.evaluate(alignkit.read_gold(place), alignkit.read_links(place)).aer == 0
    assert [record.message.partition("links: ")[2][:52] for record in caplog.records] == [
        "index 0 occurs in none of 20 lines with links: read "
    ] * 2
    assert all("base=0" in record.message for record in caplog.records)
    for base in (0, "0", 1, "1"):
        both = alignkit.read_gold(place, base=base), alignkit.read_links(place, base=base)
        assert both[0].sure == both[1]
        assert both[1].pairs.min() == 1 - int(base)
    assert len(caplog.records) == 2
    with pytest.raises(alignkit.AlignkitError, match="unknown base '2'; choose from auto, 0, 1"):
        alignkit.read_links(place, base=2)
