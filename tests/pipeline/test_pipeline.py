"""align: any text, any model, one call."""

from __future__ import annotations

import gzip
import io
from dataclasses import fields, replace

import numpy as np
import pytest
from planted import bitext_of, random_pairs

import alignkit
from alignkit.aligner import Aligner, Symmetrized
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.priors import read_prior
from alignkit.classical.settings import PRIOR_WEIGHT, IBM1Settings
from alignkit.errors import AlignkitError, InputError
from alignkit.links.from_scores import best_links, links_above, scores_of_links
from alignkit.links.links import Links
from alignkit.pipeline import models
from alignkit.pipeline.align import align, align_stream
from alignkit.pipeline.aligned_text import Written, write_alignments
from alignkit.pipeline.models import Fit, Linker
from alignkit.pipeline.settings import METHODS, QUALITIES, AlignSettings, FitSettings, LinkSettings

PAIRS = [pair for pair in random_pairs(41, pairs=60) if all(pair)]
SOURCE, TARGET = ([" ".join(side) for side in sides] for sides in zip(*PAIRS, strict=True))
BITEXT = bitext_of(PAIRS)


@pytest.fixture
def files(tmp_path):
    paths = tmp_path / "source.gz", tmp_path / "target"
    paths[0].write_bytes(gzip.compress("".join(f"{line}\n" for line in SOURCE).encode()))
    paths[1].write_text("".join(f"{line}\n" for line in TARGET))
    return paths


def pharaoh(aligned):
    return aligned.links.to_pharaoh()


def test_every_way_to_give_a_text_gives_the_same(files, tmp_path):
    expected = fit_ibm1(BITEXT).links(BITEXT).to_pharaoh()
    joined = tmp_path / "joined"
    joined.write_text("".join(f"{x} ||| {y}\n" for x, y in zip(SOURCE, TARGET, strict=True)))
    words = [line.split() for line in SOURCE], [line.split() for line in TARGET]
    for text in ([BITEXT], files, [str(path) for path in files], [joined], (SOURCE, TARGET), words):
        assert pharaoh(align(*text, method="ibm1")) == expected
    assert pharaoh(align(iter(SOURCE), (tuple(words) for words in words[1]), method="ibm1")) == expected


def test_lines_are_split_at_spaces_and_tabs_only():
    aligned = align(["a\u00a0b c\td", ""], ["x y", "z"], method="ibm1")
    assert aligned.bitext.source.words(0) == ["a\u00a0b", "c", "d"]
    assert len(aligned.links) == 2
    lower = align(["A b"], [["X", "y"]], method="ibm1", lowercase=True).bitext
    assert (lower.source.words(0), lower.target.words(0)) == (["a", "b"], ["x", "y"])


def test_streams_without_lines(tmp_path):
    path, model = tmp_path / "nothing", fit_ibm1(BITEXT)
    path.touch()
    assert list(align_stream([], model)) == list(align_stream(iter([]), model)) == []
    for mode in ("r", "rb"):
        with path.open(mode) as file, pytest.raises(InputError, match=r"nothing: is empty$"):
            list(align_stream(file, model))
    path.write_text("a ||| b\nc\n")
    for mode in ("r", "rb"):
        with path.open(mode) as file, pytest.raises(InputError, match=r"nothing, line 2: has 0 separators"):
            list(align_stream(file, model))
    stdin = io.BytesIO()
    stdin.name = "<stdin>"
    for stream in (io.BytesIO(), stdin):
        with pytest.raises(InputError, match=r"^standard input: is empty$"):
            list(align_stream(stream, model))


def test_a_text_that_is_none(files):
    with pytest.raises(InputError, match=r"das Haus: cannot be read: .*; sentences go into a list"):
        align("das Haus", "the house")
    with pytest.raises(InputError, match="absent: cannot be read"):
        align("absent", "too")
    for text in ((files[0], TARGET), (SOURCE, str(files[1])), (SOURCE,)):
        with pytest.raises(AlignkitError, match="two files, one file with both sides, or two sequences"):
            align(*text)
    with pytest.raises(AlignkitError, match=f"{len(SOURCE)} source and {len(SOURCE) - 1} target sentences"):
        align(SOURCE, TARGET[1:])
    with pytest.raises(AlignkitError, match="a bitext has both sides"):
        align(BITEXT, TARGET)


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_of_any_method_gives_its_links_again(method, tmp_path):
    first = align(BITEXT, method=method, threads=1)
    first.aligner.save(tmp_path / "model")
    for model in (first.aligner, tmp_path / "model", str(tmp_path / "model")):
        again = align(SOURCE, TARGET, model=model, threads=2)
        assert again.aligner.threads == 2
        assert align(SOURCE, TARGET, model=model).aligner.threads == (1 if model is first.aligner else None)
        assert pharaoh(again) == first.aligner.links(BITEXT).to_pharaoh()
        assert (again.score("alpha").values == first.aligner.score(BITEXT, "alpha").values).all()
        assert np.array_equal(again.sentence_scores, first.sentence_scores)


def test_the_joint_model_is_the_default():
    fitted = fit_joint(BITEXT)
    aligned = align(BITEXT)
    assert pharaoh(aligned) == fitted.fitted_links.to_pharaoh()
    assert aligned.aligner.name == fitted.name
    assert aligned.score() == fitted.fitted_probabilities != fitted.score(BITEXT, "alpha")
    assert aligned.score("beta") == fitted.score(BITEXT, "beta")
    high = align(BITEXT, threshold=0.9)
    assert high.aligner.threshold == 0.9
    assert pharaoh(high) == fitted.with_threshold(0.9).fitted_links.to_pharaoh() != pharaoh(aligned)
    sure = fitted.that_finds("sure")
    assert pharaoh(align(BITEXT, links="sure")) == sure.fitted_links.to_pharaoh() != pharaoh(aligned)
    assert pharaoh(align(BITEXT, model=fitted, links="sure")) == sure.links(BITEXT).to_pharaoh()


def test_one_probability_is_thresholded_printed_and_scored():
    aligned = align(BITEXT)
    scores, probabilities = aligned.score("alpha"), aligned.probabilities
    assert probabilities.min() >= np.float32(aligned.aligner.threshold)
    assert links_above(scores, aligned.aligner.threshold).to_pharaoh() == aligned.links.to_pharaoh()
    assert scores_of_links(aligned.links, scores).tolist() == probabilities.tolist()
    printed = [alignment.probabilities for alignment in aligned.alignments(probabilities=True)]
    assert np.concatenate(printed).tolist() == probabilities.tolist()


@pytest.mark.parametrize("quality", QUALITIES)
def test_qualities(quality, tmp_path):
    aligned = align(BITEXT, quality=quality)
    aligned.aligner.save(tmp_path / "model")
    again = align(BITEXT, model=tmp_path / "model")
    assert pharaoh(again) == aligned.aligner.links(BITEXT).to_pharaoh()
    assert aligned.probabilities.min() >= np.float32(aligned.aligner.threshold)
    if quality != "normal":
        with pytest.raises(AlignkitError, match="no quality"):
            align(BITEXT, method="ibm1", quality=quality)
    with pytest.raises(AlignkitError, match="choose from fast, normal, best"):
        align(BITEXT, quality="perfect")


def test_case_is_folded_unless_it_is_kept():
    shouted = [line.upper() if m % 2 else line for m, line in enumerate(TARGET)]
    lower = [line.lower() for line in TARGET]
    links = [pharaoh(align(SOURCE, side)) for side in (shouted, lower)]
    assert links[0] == links[1]
    assert pharaoh(align(SOURCE, shouted, keep_case=True)) != links[0]
    model = align(SOURCE, lower).aligner
    assert pharaoh(align(SOURCE, shouted, model=model)) == pharaoh(align(SOURCE, lower, model=model))


@pytest.mark.parametrize("quality", ["fast", "normal", "best"])
@pytest.mark.parametrize(
    "pair", ["a b ||| c d", "we have no time . ||| wir haben keine Zeit .", "a b c ||| d e f"]
)
def test_words_of_a_single_pair_are_linked_in_order(pair, quality):
    source, target = pair.split(" ||| ")
    wanted = " ".join(f"{i}-{i}" for i in range(len(source.split())))
    assert align([source], [target], quality=quality).links.to_strings() == [wanted]


def test_settings_and_options_reach_the_fit():
    settings = AlignSettings(fitting=FitSettings("ibm1", IBM1Settings(iterations=7)))
    aligned = align(BITEXT, settings=settings, estimation=IBM1Settings(iterations=2))
    assert len(aligned.aligner.log_likelihood) == 2
    fertile = align(BITEXT, method="hmm", estimation=HMMSettings(fertility=1.0, iterations=2))
    assert pharaoh(fertile) == fit_hmm(BITEXT, fertility=1.0, iterations=2).links(BITEXT).to_pharaoh()


def test_reverse_links_source_first():
    reverse = fit_ibm1(BITEXT.reversed)
    aligned = align(BITEXT, method="ibm1", reverse=True)
    assert pharaoh(aligned) == reverse.links(BITEXT.reversed).reversed.to_pharaoh()
    assert aligned.sentence_scores.shape == (len(BITEXT), 1)


def test_two_saved_directions_are_symmetrized(tmp_path):
    models = fit_ibm1(BITEXT), fit_ibm1(BITEXT.reversed)
    for model, name in zip(models, "fr", strict=True):
        model.save(tmp_path / name)
    paths = tmp_path / "f", tmp_path / "r"
    for method, threshold in (("union", None), ("product", None), ("product", 0.5)):
        expected = Symmetrized(*models, method, threshold).links(BITEXT).to_pharaoh()
        for given in ({"model": models}, {"model": paths}, {"method": "ibm1"}):
            assert pharaoh(align(BITEXT, **given, symmetrization=method, threshold=threshold)) == expected
    assert pharaoh(align(BITEXT, model=models)) == Symmetrized(*models).links(BITEXT).to_pharaoh()


def test_a_symmetrized_fit_goes_on_from_a_symmetrized_model(tmp_path):
    def fitted(iterations, **more):
        estimation = IBM1Settings(iterations=iterations)
        aligned = align(BITEXT, method="ibm1", symmetrization="union", estimation=estimation, **more)
        aligned.aligner.save(tmp_path / str(iterations))
        return aligned.aligner

    whole, _, rest = fitted(5), fitted(2), fitted(3, start=tmp_path / "2")
    for one, other in ((whole.forward, rest.forward), (whole.reverse, rest.reverse)):
        assert one.table.values.tobytes() == other.table.values.tobytes()
    with pytest.raises(AlignkitError, match="is a model of one direction"):
        fitted(1, start=whole.forward)


@pytest.mark.parametrize("wanted", ["", "probabilities", "scored", "words", "probabilities scored words"])
def test_blocks_change_nothing(set_blocks, monkeypatch, wanted):
    model = fit_joint(BITEXT)

    def whole(**options):
        aligned = replace(align(BITEXT, **options), ids=tuple(range(len(BITEXT))))
        found = list(aligned.alignments(**dict.fromkeys(wanted.split(), True)))
        assert [each for part in found for each in part.ids] == list(range(len(BITEXT)))
        for each in found:
            given = each.probabilities is not None, each.sentence_scores is not None, bool(each.source)
            assert given == ("prob" in wanted, "scored" in wanted or "words" in wanted, "words" in wanted)
        links = alignkit.Links.concatenated([each.links for each in found]).to_pharaoh()
        values = [each.probabilities.tolist() for each in found if each.probabilities is not None]
        return links, [value for part in values for value in part], max(len(each.links) for each in found)

    for options, block in (({"model": model}, 7), ({"method": "ibm1"}, 25), ({}, 25)):
        (links, values, _), _ = whole(**options), set_blocks(BLOCK=7, WRITTEN_BLOCK=25)
        assert whole(**options) == (links, values, 7 if wanted else block)
        monkeypatch.undo()


@pytest.mark.parametrize("output_format", ["pharaoh", "probabilities", "giza"])
def test_write(tmp_path, output_format, capfdbinary):
    aligned = align(BITEXT, method="ibm1")
    aligned.write(tmp_path / "links", output_format, tmp_path / "scores")
    aligned.write(output_format=output_format)
    assert capfdbinary.readouterr().out == (tmp_path / "links").read_bytes()
    assert len((tmp_path / "scores").read_text().splitlines()) == len(BITEXT)
    if output_format == "probabilities":
        first = (tmp_path / "links").read_text().split()[0]
        assert float(first.split(":")[1]) == pytest.approx(aligned.probabilities[0], rel=1e-3)


class OnlyAlpha(Aligner):
    name, kinds = "mine", ("alpha",)

    def score(self, bitext, kind):
        return fit_ibm1(BITEXT).score(bitext, kind)

    def save(self, path):
        raise AssertionError


def test_an_aligner_of_scores_alone():
    aligned = align(BITEXT, model=OnlyAlpha(), threads=2)
    assert pharaoh(aligned) == best_links(OnlyAlpha().score(BITEXT, "alpha")).to_pharaoh()
    with pytest.raises(AlignkitError, match="do not depend on a threshold"):
        align(BITEXT, model=OnlyAlpha(), threshold=0.5)


class OfPieces(OnlyAlpha):
    tokenizer = object()


def test_links_depend_on_their_block_if_a_network_gives_some_or_a_model_is_adapted():
    forward, reverse = fit_ibm1(BITEXT), fit_ibm1(BITEXT.reversed)
    for model, depends in (
        (forward, False),
        ((forward, reverse), False),
        (OfPieces(), True),
        ((OfPieces(), reverse), True),
        ((forward, OfPieces()), True),
    ):
        assert Linker(model, AlignSettings(), None).depends_on_block == depends
    joint = fit_joint(BITEXT, iterations=1)
    assert [Linker(joint, AlignSettings.of(adapt=each), 1).depends_on_block for each in (False, True)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "xor"}, "unknown method 'xor'; choose from joint, ibm1"),
        (
            {"method": "ibm1", "estimation": HMMSettings()},
            "ibm1 needs IBM1Settings, not HMMSettings",
        ),
        ({"symmetrization": "union"}, "joint, which does so by itself"),
        ({"reverse": True}, "reverse"),
        ({"method": "hmm", "reverse": True, "symmetrization": "union"}, "reverse"),
        ({"method": "hmm", "symmetrization": "xor"}, "cannot symmetrize by 'xor'"),
        ({"method": "hmm", "threshold": 0.5}, "only a joint model, or both directions"),
        ({"threshold": 50}, r"the threshold must lie in \[0, 1\], not 50"),
        ({"method": "hmm", "symmetrization": "union", "threshold": 0.5}, "threshold"),
        (
            {"method": "diagonal", "prior": "x"},
            "prior does not go with diagonal, only with joint, ibm1",
        ),
        ({"quality": "best", "start": "x"}, "start does not go with quality best; leave out --start or --quality"),
        ({"prior_weight": 3}, "prior_weight goes only with prior"),
        ({"links": "few"}, "unknown choice of links 'few'; choose from sure, all"),
        ({"links": "all", "threshold": 0.5}, "leave out --links or --threshold"),
        ({"links": "all", "gold": Links.from_lists([])}, "leave out --gold or --links"),
        ({"links": "all", "method": "hmm"}, "links is for a joint model, not for hmm"),
        ({"speed": 3}, "there is no setting 'speed'; choose from encoding_errors, .*, adapt"),
    ],
)
def test_what_does_not_go_together(settings, message):
    with pytest.raises(AlignkitError, match=message):
        align(BITEXT, **settings)


def test_what_folds_case():
    for options, folds in (
        ({}, True),
        ({"keep_case": True}, False),
        ({"estimation": replace(JOINT_SETTINGS, fold_case=False)}, False),
        ({"method": "hmm"}, False),
        ({"method": "ibm1"}, False),
    ):
        assert FitSettings(**options).folds_case == folds
    assert [LinkSettings(threshold=bound).threshold for bound in (0, 1)] == [0, 1]


FIT_VALUES = {
    "method": "hmm",
    "estimation": JOINT_SETTINGS,
    "iterations": 3,
    "quality": "best",
    "keep_case": True,
    "reverse": True,
    "prior": "x",
    "embeddings": "e5",
    "start": "x",
}


def test_a_fitted_model_goes_with_no_setting_of_a_fit():
    model, joint = fit_ibm1(BITEXT), fit_joint(BITEXT, iterations=1)
    assert {*FIT_VALUES, "prior_weight"} == {field.name for field in fields(FitSettings)}
    for name, value in FIT_VALUES.items():
        more = {"method": "ibm1"} if name == "reverse" else {}
        with pytest.raises(AlignkitError, match=rf"not fitted again; (method, )?{name} cannot be given with it"):
            align(BITEXT, model=model, **{name: value}, **more)
    with pytest.raises(AlignkitError, match="iterations, quality cannot be given"):
        align_stream(io.BytesIO(), model, iterations=2, quality="fast")
    assert len(align(BITEXT, model=joint, adapt=True)) == len(BITEXT)
    with pytest.raises(AlignkitError, match="adapt is for a fitted model"):
        align(BITEXT, adapt=True)
    with pytest.raises(AlignkitError, match="a heuristic combines two models"):
        align(BITEXT, model=model, symmetrization="union")
    with pytest.raises(AlignkitError, match="links is for a joint model, as of `alignkit align`, not for ibm1"):
        align(BITEXT, model=model, links="sure")
    with pytest.raises(AlignkitError, match="links is for one joint model"):
        align(BITEXT, model=(model, model), links="sure")


@pytest.mark.parametrize("method", METHODS)
def test_few_pairs_are_told(caplog, method):
    """As many as have words on both sides; not where something else than they teaches."""
    few = BITEXT.block(0, 29), [*SOURCE[:29], *"ab"], [*TARGET[:29], "", " "]
    for text in (few[:1], few[1:]):
        align(*text, method=method)
        assert (
            caplog.text.count("only 29 sentence pairs to learn from: expect many wrong links; `alignkit align`")
            == 1
        )
        assert "(in Python model=" in caplog.text
        caplog.clear()
    align(BITEXT.block(0, 30), method=method)
    model = align(BITEXT, method=method).aligner
    align(few[0], model=model)
    align(["", " "], ["a", "b"], method=method)
    if "start" in METHODS[method].takes:
        align(few[0], method=method, start=model)
        align(["", " "], ["t0", "a"], method=method, start=model)
    assert caplog.text == ""


def test_few_pairs_with_a_lexicon_or_embeddings_are_enough(caplog, tmp_path):
    for name, text in (("lexicon", "w1\tv1\t1\n"), ("x.vec", "1 2\nw1 1 0\n"), ("y.vec", "1 2\nv1 1 0\n")):
        (tmp_path / name).write_text(text)
    align(["w1 w2"], ["v1 v2"], prior=tmp_path / "lexicon")
    align(["w1 w2"], ["v1 v2"], embeddings=f"{tmp_path / 'x.vec'},{tmp_path / 'y.vec'}")
    assert caplog.text == ""


def test_a_lexicon_from_a_file_counts_for_its_weight(tmp_path):
    (tmp_path / "lexicon").write_text("s1\tt2\t1\n")
    tables = []
    for options in ({}, {"prior_weight": 50}):
        weight = options.get("prior_weight", PRIOR_WEIGHT)
        given = (tmp_path / "lexicon", options), (read_prior(tmp_path / "lexicon", weight), {})
        found = [align(BITEXT, method="ibm1", prior=prior, **more).aligner.table.values for prior, more in given]
        assert np.array_equal(*found)
        tables += found[:1]
    assert not np.array_equal(*tables)


def test_progress_names_the_direction():
    told = []
    align(BITEXT, method="ibm1", symmetrization="union", threads=1, progress=lambda *args: told.append(args))
    assert [done for done, _, _ in told] == [*range(1, 6)] * 2
    assert [message.startswith("reverse, ") for _, _, message in told] == [False] * 5 + [True] * 5


def test_what_is_written_is_counted_over_all_texts(caplog, tmp_path):
    lines = ["a ||| b c", "none", "d ||| ", "e ||| f", "a ||| b ||| c", " ||| ", "g h ||| i"]
    texts = list(align_stream(lines, fit_ibm1(BITEXT), skip=True))
    assert len(texts) == len(lines)
    written = write_alignments(texts, tmp_path / "out")
    links = len((tmp_path / "out").read_text().split())
    assert written == (7, links, 4, 2, 2)
    assert str(Written(1)) == "1 pair, 0 links"
    assert str(written).startswith("7 pairs (2 with a blank side, 2 malformed and skipped), ")
    assert [message.partition(":")[0] for message in caplog.messages] == ["skipped lines[1]"]


def test_many_pairs_without_a_link_are_told(caplog, tmp_path):
    model = fit_joint(BITEXT)
    for pairs, threshold, told in ((10, 1, True), (9, 1, False), (10, 0.5, False)):
        text = [*SOURCE[:pairs], ""], [*TARGET[:pairs], "x"]
        align(*text, model=model, threshold=threshold).write(tmp_path / "out")
        assert caplog.text.count("no link reaches the threshold of 1;") == told
        caplog.clear()


@pytest.mark.parametrize(("own", "other", "told"), [(9, 10, True), (10, 10, False), (10, 9, False)])
def test_sides_seem_exchanged_if_more_frequent_words_are_known_on_the_other_side(
    own, other, told, caplog, tmp_path
):
    """Of the twenty most frequent words, in any case; the rare ones at the end are all known on the other side."""
    source, target = ([f"{side}{n}" for n in range(count)] for side, count in (("s", own), ("t", other)))
    rare = [f"r{n}" for n in range(40)]
    model = fit_ibm1(bitext_of([(source, [*target, *rare])]))
    words = [*source, *target, "x"][:20]
    text = [" ".join(words).upper()] * 10, ["y"] * 10
    for tail, count in (("", 10), (" ".join(rare), 10), ("", 9)):
        sides = [[*text[0][: count - 1], f"{text[0][0]} {tail}", "x"], [*text[1][:count], ""]]
        align(*sides, model=model).write(tmp_path / "out")
        assert ("are source and target exchanged?" in caplog.text) == (told and count == 10)
        caplog.clear()


def test_nothing_is_left_if_the_second_file_cannot_be_opened(tmp_path):
    with pytest.raises(AlignkitError, match="absent"):
        align(BITEXT, method="ibm1").write(tmp_path / "out", sentence_scores=tmp_path / "absent" / "scores")
    assert list(tmp_path.iterdir()) == []


def test_files_take_their_place_at_the_end(tmp_path):
    aligned = align(BITEXT, method="ibm1")

    def texts():
        yield aligned
        assert not (tmp_path / "out").exists()

    write_alignments(texts(), tmp_path / "out", sentence_scores=tmp_path / "scores")
    assert (tmp_path / "out").read_bytes() == aligned.links.to_pharaoh()
    assert len((tmp_path / "scores").read_text().splitlines()) == len(aligned)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_both_directions_at_once_are_those_fitted_apart(monkeypatch, threads):
    def fit(text, estimation, *, threads, **options):
        shares.append(threads)
        return fit_ibm1(text, iterations=3, threads=threads)

    shares = []
    monkeypatch.setattr(models, "imported", lambda place: fit)
    at_once = Fit(AlignSettings.of(method="ibm1", symmetrization="gdfa"))(BITEXT, threads)
    assert sorted(shares) == ([1, 1] if threads == 1 else [threads // 2, threads - threads // 2])
    apart = fit_ibm1(BITEXT, iterations=3), fit_ibm1(BITEXT.reversed, iterations=3)
    for one, other in zip(apart, (at_once.forward, at_once.reverse), strict=True):
        assert one.table.values.tobytes() == other.table.values.tobytes()
        assert one.null.tobytes() == other.null.tobytes()
        assert other.threads == threads


def test_an_error_in_one_direction_is_raised(monkeypatch):
    def fit(text, estimation, **options):
        if text.source is not BITEXT.source:
            raise RuntimeError("no")
        return fit_ibm1(text, iterations=1)

    monkeypatch.setattr(models, "imported", lambda place: fit)
    for threads in (1, 2):
        with pytest.raises(RuntimeError, match="no"):
            Fit(AlignSettings.of(method="ibm1", symmetrization="gdfa"))(BITEXT, threads)
