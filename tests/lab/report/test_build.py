"""A report of runs: the course of learning, several runs, and scores of others on the network's tokens."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.lab.report.build import against_gold, build_report
from alignkit.lab.report.page import page_data
from alignkit.lab.report.tables import align_columns
from alignkit.links.from_scores import best_links
from alignkit.links.links import parse_links
from alignkit.metrics.aer import WordFacts, error_table
from alignkit.metrics.agreement import agreement
from alignkit.neural.aligners import load_checkpoint
from alignkit.neural.training.run_directory import RunDirectory, TranslationRun
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.uses.evaluation import evaluate_files
from alignkit_cli.main import run as run_program
from tests.lab.report.conftest import find


def test_columns_are_aligned_without_blanks_at_their_end():
    assert align_columns([["", "b", ""], ["cc", "1.5", ""]]) == "      b\ncc  1.5"


@pytest.fixture(scope="module")
def report(folder):
    return build_report(runs=[str(folder / "uniform-0"), str(folder / "general-0")], device="cpu")


def test_sets_of_a_run(report):
    """The run with attention is the main one, whatever the order."""
    assert [each.name for each in report.sets] == ["lstm.alpha", "lstm.beta", "uniform.beta", "ibm1.beta"]
    assert report.main_pair == ("lstm.alpha", "ibm1.beta")
    assert len({each.label for each in report.sets}) == 4


def test_the_course_is_that_of_the_checkpoints(folder, report):
    run = TranslationRun(folder / "general-0")
    reference = fit_ibm1(run.train, iterations=5, null=False).score(run.valid, "beta")
    course = report.time_course.set_index(["name", "step"])["value"]
    steps = sorted(run.checkpoints)
    assert len(steps) >= 3
    for step in steps:
        network = load_checkpoint(run.checkpoints[step], "cpu")
        for kind in ("alpha", "beta"):
            wanted = agreement(network.score(run.valid, kind), reference, resamples=0)
            assert course[f"A({kind}(step), ibm1.beta)", step] == wanted.agreement
            assert course[f"chance({kind}(step), ibm1.beta)", step] == wanted.chance
    log = {(row.name, row.step): row.value for row in run.log.rows}
    assert {key: course[key] for key in log} == log


def test_facts_of_the_text_and_the_runs(folder, report):
    facts = report.facts
    assert facts["text"] == {
        "pairs learned from": "250",
        "pairs scored": "50",
        "top of a row": "5 %",
        "seed of the intervals": 0,
    }
    assert facts["IBM Model 1"] == {"iterations": 5, "NULL": False}
    titles = "network", "network without attention"
    for name, called, title in zip(("general-0", "uniform-0"), ("lstm", "uniform"), titles, strict=True):
        network = TranslationRun(folder / name).load(device="cpu")
        assert network.title == title
        own = facts[f"run {name}"]
        assert (own["called here"], own["step"]) == (called, f"{network.step:,}")
        assert own["valid.accuracy"] == f"{network.metrics['valid.accuracy']:.4g}"
        assert own["network"]["hidden"] == 24
    assert (report.title, report.specials, report.marked) == ("What attention learned", True, True)
    assert (report.percent, report.seed, report.gold, report.words) == (5, 0, None, None)


def test_steps_of_fixed_attention_are_known(folder, report):
    """The preset small fixes attention in its first three epochs: of these runs' four."""
    run = TranslationRun(folder / "general-0")
    assert run.settings.training.warmup == 3
    epochs = [row.step for row in run.log.rows if row.name == "valid.loss"]
    assert report.uniform_steps == {"general-0": run.uniform_steps}
    assert run.uniform_steps == 3 * max(epochs) / 4
    assert TranslationRun(folder / "uniform-0").uniform_steps == run.uniform_steps


def test_counts_are_those_of_the_training_text(folder, report):
    train = TranslationRun(folder / "general-0").train.source
    for token in ("s0", "</s>"):
        index = report.bitext.source.vocabulary.id(token)
        assert report.counts[index] == sum(train.words(m).count(token) for m in range(len(train)))


@pytest.fixture(scope="module")
def two_seeds(folder):
    return build_report(runs=[str(folder / "general-0"), str(folder / "general-1")], device="cpu")


def test_runs_of_two_seeds_are_called_by_their_folders(two_seeds):
    found = two_seeds
    assert [each.name for each in found.sets][:4] == [
        "general-0.alpha",
        "general-0.beta",
        "general-1.alpha",
        "general-1.beta",
    ]
    assert len({each.label for each in found.sets}) == 5
    series = page_data(found, 1)["course"]["series"]
    assert sum(each["role"] == "agreement" for each in series) == 5
    assert len({each["label"] for each in series}) == len(series)


def test_the_second_seeds_attention_is_drawn_towards_the_firsts(folder, two_seeds):
    found = two_seeds
    (shown,) = (each for each in page_data(found, 1)["course"]["series"] if "another run" in each["label"])
    assert shown["label"].endswith("(general-1)")
    other = TranslationRun(folder / "general-1")
    assert [step for step, _ in shown["points"]] == sorted(other.checkpoints)
    alpha = find(found, "general-0.alpha").scores
    for step, value in shown["points"]:
        moved = load_checkpoint(other.checkpoints[step], "cpu").score(other.valid, "alpha")
        assert value == pytest.approx(agreement(alpha, moved, resamples=0).agreement, abs=1e-6)
    assert found.time_course["name"].str.startswith("A(general-0.alpha").sum() == len(other.checkpoints)


@pytest.fixture
def gold(gold_lines, tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("".join(f"{line}\n" for line in gold_lines[250:]))
    return path


def test_links_of_words_leave_out_start_and_end(folder, gold):
    found = build_report(
        runs=[str(folder / "general-0")], scores={"people": str(gold)}, gold=str(gold), device="cpu"
    )
    assert "<s>" not in found.bitext.source.words(0)
    people = find(found, "people.alpha").scores
    assert all((matrix.sum(axis=1) == 1).all() for matrix in people)  # every target word has one link
    assert found.gold is not None
    assert found.token_links(found.gold.sure) == [
        [tuple(link) for link in pair.tolist()] for pair in found.gold.sure
    ]
    whole = build_report(runs=[str(folder / "general-0")], device="cpu")
    cropped, full = find(found, "lstm.alpha").scores, find(whole, "lstm.alpha").scores
    assert all(np.array_equal(small, large[:-1, 1:-1]) for small, large in zip(cropped, full, strict=True))
    course = found.time_course.set_index(["name", "step"])["value"]
    last = found.time_course[found.time_course["name"] == "chance(alpha(step), ibm1.beta)"]["step"].max()
    row = found.tables["agreement"].set_index(["u", "v"]).loc[("lstm.alpha", "ibm1.beta")]
    assert course["chance(alpha(step), ibm1.beta)", last] == pytest.approx(row.chance)


def test_other_text_than_the_runs(folder, lines):
    text = ([*lines[0][:3], ""], [*lines[1][:3], "t0"])
    found = build_report(runs=[str(folder / "general-0")], text=text, device="cpu")
    assert len(found.bitext) == 4
    assert found.bitext.source.words(3) == ["<s>", "</s>"]


def test_saved_models_are_compared_between_words(folder, lines, tmp_path):
    words = Bitext.from_sentences(*([line.split() for line in side] for side in lines))
    models = {name: fit_ibm1(words, iterations=count) for name, count in (("one", 1), ("two", 2))}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.npz")
    files = [tmp_path / f"{name}.npz" for name in models]
    found = build_report(runs=[str(folder / "general-0")], models=files, device="cpu")
    held = words.block(250, 300)
    assert np.array_equal(found.bitext.shapes, held.shapes)
    for name, model in models.items():
        assert find(found, f"{name}.alpha").scores.values == pytest.approx(model.score(held, "alpha").values)


def test_a_run_is_no_model(folder, tmp_path, capsys):
    arguments = [str(folder / "general-0"), "--model", str(folder / "general-1"), "-o", str(tmp_path / "r.html")]
    assert run_program(["report", *arguments, "--device", "cpu", "-q"]) == 2
    assert "is a network: give it as a run, and not with --model" in capsys.readouterr().err


def test_not_a_run(folder, tmp_path):
    with pytest.raises(AlignkitError):
        build_report(runs=[str(tmp_path)], device="cpu")
    with pytest.raises(AlignkitError, match="as a run"):
        build_report(runs=[str(folder / "general-0")], models=[str(folder / "general-1")], device="cpu")
    with pytest.raises(AlignkitError, match="general-0 is given twice"):
        build_report(runs=[str(folder / "general-0")] * 2, device="cpu")
    shutil.copytree(folder / "general-0", tmp_path / "general-0")
    with pytest.raises(AlignkitError, match="same name"):
        build_report(runs=[str(folder / "general-0"), str(tmp_path / "general-0")], device="cpu")
    shutil.copytree(folder / "uniform-0", tmp_path / "other" / "general-0")  # of another kind
    with pytest.raises(AlignkitError, match="same name"):
        build_report(runs=[str(folder / "general-0"), str(tmp_path / "other" / "general-0")], device="cpu")


def test_the_command_and_the_page(folder, tmp_path, capsys):
    out = tmp_path / "a.html"
    assert run_program(["report", str(folder / "general-0"), "-o", str(out), "--device", "cpu"]) == 0
    assert "50 of 50 sentence pairs" in capsys.readouterr().err
    first = out.read_bytes()
    assert run_program(["report", str(folder / "general-0"), "-o", str(out), "--device", "cpu", "-q"]) == 0
    assert out.read_bytes() == first
    assert b"When it was learned" in first


def test_compare_takes_scores_of_others(folder, lines, gold, capsys, monkeypatch):
    """Gold links as scores are a good dictionary's: IBM Model 1 agrees with them far above chance."""
    arguments = ["compare", "--neural", str(folder / "general-0"), "--device", "cpu", "--json"]
    assert run_program([*arguments, "--scores", f"people={gold}"]) == 0
    table = {(row["u"], row["v"]): row for row in json.loads(capsys.readouterr().out)["agreement"]}
    row = table["people.alpha", "ibm1.beta"]
    assert row["rows"] == sum(len(line.split()) for line in lines[1][250:])
    assert row["agreement"] > 0.8 > row["chance"] + 0.3
    monkeypatch.setattr("alignkit.neural.proxy.proxy_of", None)  # a name is refused before anything is trained
    assert run_program([*arguments, "--scores", f"lstm={gold}"]) == 2
    assert "must be new" in capsys.readouterr().err


def test_errors_by_class_are_of_words(folder, lines, gold, gold_lines):
    """Subwords or not: the classes are those that `evaluate` finds for the same links between words."""
    found = build_report(runs=[str(folder / "general-0")], gold=gold, device="cpu")
    ((each, _, table),) = against_gold(found)
    assert each.name == "lstm.alpha"
    words = [[line.split() for line in side] for side in lines]
    facts = WordFacts.of(*(Bitext.from_sentences(*(s[a:b] for s in words)) for a, b in ((250, None), (0, 250))))
    # Without BOS and EOS the network's tokens are the words.
    inner = Scores.from_matrices([matrix[:-1, 1:-1] for matrix in find(found, "lstm.alpha").scores])
    wanted = error_table(parse_links("gold", gold_lines[250:]), best_links(inner), facts, empty=True)
    shared = table[table["by"] != "probability"].reset_index(drop=True)
    assert shared.equals(wanted)
    assert "probability" in set(table["by"])


def test_scores_of_files_have_no_null(lines, gold, gold_lines, tmp_path):
    """A head that gives most to </s> has the links that `evaluate` gives it."""
    pairs = LinePairs(*(side[250:] for side in lines))
    sizes = [(len(y.split()), len(x.split())) for x, y in zip(*pairs, strict=True)]
    rng = np.random.default_rng(0)
    AttentionHeads.from_pairs(rng.random((1, 1, *size)) / 99 for size in sizes).save(tmp_path / "h.npz")
    found = build_report(text=pairs, scores={"h": f"{tmp_path / 'h.npz'}:0.0"}, gold=gold)
    counts = {each.name: counts for each, counts, _ in against_gold(found)}["h.alpha"]
    wanted, _ = evaluate_files(gold, f"{tmp_path / 'h.npz'}:0.0")
    assert counts.in_sure.tolist() == wanted.in_sure.tolist()
    assert counts.found.sum() == wanted.found.sum() == sum(height for height, _ in sizes)


def test_an_unfinished_run_is_named(folder, report, monkeypatch):
    assert report.unfinished == ()
    monkeypatch.setattr(RunDirectory, "finished", property(lambda run: run.path.name != "general-1"))
    assert build_report(runs=[folder / "general-1"], resamples=0, device="cpu").unfinished == ("general-1",)
