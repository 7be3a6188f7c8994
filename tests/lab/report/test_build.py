"""A report of runs: the course of learning, several runs, and scores of others on the network's tokens."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from planted import permuted_copy

from alignkit.errors import AlignkitError
from alignkit.metrics.agreement import agreement
from alignkit.scores import Scores
from alignkit_cli.main import run as run_program
from tests.lab.report.conftest import find


@pytest.fixture(scope="module")
def lines():
    pairs, links = permuted_copy(4, pairs=150, types=12, longest=5)
    gold = [" ".join(f"{s}-{t}" for s, t in link) for link in links]
    return [" ".join(x) for x, _ in pairs], [" ".join(y) for _, y in pairs], gold


@pytest.fixture(scope="module")
def runs(lines, tmp_path_factory):
    """Two seeds with attention, and one run without."""
    from alignkit.neural.settings import PRESETS
    from alignkit.neural.training.translation import train_translation
    from alignkit.text.pairs import LinePairs

    folder = tmp_path_factory.mktemp("runs")
    for name, attention, seed in (("one", "general", 0), ("two", "general", 1), ("even", "uniform", 0)):
        settings = PRESETS["small"].change(
            text={"tokens": "words"},
            network={"attention": attention, "embedding": 16, "hidden": 16},
            training={"epochs": 2, "keep": "logged", "seed": seed},
        )
        sides = [side[:120] for side in lines[:2]], [side[120:] for side in lines[:2]]
        train_translation(folder / name, LinePairs(*sides[0]), LinePairs(*sides[1]), settings, device="cpu")
    return folder


@pytest.fixture(scope="module")
def report(runs):
    from alignkit.lab.report.build import build_report

    return build_report(runs=[str(runs / "even"), str(runs / "one")], device="cpu")


def test_sets_of_a_run(report):
    """The run with attention is the main one, whatever the order."""
    assert [each.name for each in report.sets] == ["lstm.alpha", "lstm.beta", "uniform.beta", "ibm1.beta"]
    assert report.main_pair == ("lstm.alpha", "ibm1.beta")
    labels = [each.label for each in report.sets]
    assert len(set(labels)) == len(labels)


def test_the_course_is_that_of_the_checkpoints(runs, report):
    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.neural.aligners import load_checkpoint
    from alignkit.neural.training.run_directory import TranslationRun

    run = TranslationRun(runs / "one")
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


def test_facts_of_the_text_and_the_runs(runs, report):
    from alignkit.neural.training.run_directory import TranslationRun

    facts = report.facts
    assert facts["text"] == {
        "pairs learned from": "120",
        "pairs scored": "30",
        "top of a row": "5 %",
        "seed of the intervals": 0,
    }
    assert facts["IBM Model 1"] == {"iterations": 5, "NULL": False}
    for name, called in (("one", "lstm"), ("even", "uniform")):
        network = TranslationRun(runs / name).load(device="cpu")
        own = facts[f"run {name}"]
        assert (own["called here"], own["step"]) == (called, f"{network.step:,}")
        assert own["valid.accuracy"] == f"{network.metrics['valid.accuracy']:.4g}"
        assert own["network"]["hidden"] == 16
    assert (report.title, report.specials, report.marked) == ("What attention learned", True, True)
    assert (report.percent, report.seed, report.gold, report.words) == (5, 0, None, None)


def test_steps_of_fixed_attention_are_known(runs, report):
    """The preset small fixes attention in its first three epochs: all of these runs' two."""
    from alignkit.neural.training.run_directory import TranslationRun

    run = TranslationRun(runs / "one")
    assert run.settings.training.warmup == 3
    epochs = [row.step for row in run.log.rows if row.name == "valid.loss"]
    assert report.uniform_steps == {"one": run.uniform_steps}
    assert run.uniform_steps == 3 * max(epochs) / 2
    assert TranslationRun(runs / "even").uniform_steps == run.uniform_steps


def test_counts_are_those_of_the_training_text(runs, report):
    from alignkit.neural.training.run_directory import TranslationRun

    train = TranslationRun(runs / "one").train.source
    for token in ("s0", "</s>"):
        index = report.bitext.source.vocabulary.id(token)
        assert report.counts[index] == sum(train.words(m).count(token) for m in range(len(train)))


@pytest.fixture(scope="module")
def two_seeds(runs):
    from alignkit.lab.report.build import build_report

    return build_report(runs=[str(runs / "one"), str(runs / "two")], device="cpu")


def test_runs_of_two_seeds_are_called_by_their_folders(two_seeds):
    from alignkit.lab.report.page import page_data

    found = two_seeds
    assert [each.name for each in found.sets][:4] == ["one.alpha", "one.beta", "two.alpha", "two.beta"]
    assert len({each.label for each in found.sets}) == 5
    series = page_data(found, 1)["course"]["series"]
    assert sum(each["role"] == "agreement" for each in series) == 5
    assert len({each["label"] for each in series}) == len(series)


def test_the_second_seeds_attention_is_drawn_towards_the_firsts(runs, two_seeds):
    from alignkit.lab.report.page import page_data
    from alignkit.neural.aligners import load_checkpoint
    from alignkit.neural.training.run_directory import TranslationRun

    found = two_seeds
    (shown,) = (each for each in page_data(found, 1)["course"]["series"] if "another seed" in each["label"])
    assert shown["label"].endswith("(two)")
    other = TranslationRun(runs / "two")
    assert [step for step, _ in shown["points"]] == sorted(other.checkpoints)
    alpha = find(found, "one.alpha").scores
    for step, value in shown["points"]:
        moved = load_checkpoint(other.checkpoints[step], "cpu").score(other.valid, "alpha")
        assert value == pytest.approx(agreement(alpha, moved, resamples=0).agreement, abs=1e-6)
    assert found.time_course["name"].str.startswith("A(one.alpha").sum() == len(other.checkpoints)


def write_gold(lines, folder):
    path = folder / "gold.txt"
    path.write_text("".join(f"{line}\n" for line in lines[2][120:]))
    return path


def test_links_of_words_leave_out_start_and_end(runs, lines, tmp_path):
    from alignkit.lab.report.build import build_report

    path = write_gold(lines, tmp_path)
    found = build_report(runs=[str(runs / "one")], scores={"people": str(path)}, gold=str(path), device="cpu")
    assert "<s>" not in found.bitext.source.words(0)
    people = find(found, "people.alpha").scores
    assert all((matrix.sum(axis=1) == 1).all() for matrix in people)  # every target word has one link
    assert found.gold is not None
    assert found.token_links(found.gold.sure) == [
        [tuple(link) for link in pair.tolist()] for pair in found.gold.sure
    ]
    whole = build_report(runs=[str(runs / "one")], device="cpu")
    cropped, full = find(found, "lstm.alpha").scores, find(whole, "lstm.alpha").scores
    assert all(np.array_equal(small, large[:-1, 1:-1]) for small, large in zip(cropped, full, strict=True))
    course = found.time_course.set_index(["name", "step"])["value"]
    last = found.time_course[found.time_course["name"] == "chance(alpha(step), ibm1.beta)"]["step"].max()
    row = found.tables["agreement"].set_index(["u", "v"]).loc[("lstm.alpha", "ibm1.beta")]
    assert course["chance(alpha(step), ibm1.beta)", last] == pytest.approx(row.chance)


def test_other_text_than_the_runs(runs, lines):
    from alignkit.lab.report.build import build_report

    text = ([*lines[0][:3], ""], [*lines[1][:3], "t0"])
    found = build_report(runs=[str(runs / "one")], text=text, device="cpu")
    assert len(found.bitext) == 4
    assert found.bitext.source.words(3) == ["<s>", "</s>"]


def test_not_a_run(runs, tmp_path):
    from alignkit.lab.report.build import build_report

    with pytest.raises(AlignkitError):
        build_report(runs=[str(tmp_path)], device="cpu")
    with pytest.raises(AlignkitError, match="as a run"):
        build_report(runs=[str(runs / "one")], models=[str(runs / "two")], device="cpu")
    with pytest.raises(AlignkitError, match="one is given twice"):
        build_report(runs=[str(runs / "one")] * 2, device="cpu")
    shutil.copytree(runs / "one", tmp_path / "one")
    with pytest.raises(AlignkitError, match="same name"):
        build_report(runs=[str(runs / "one"), str(tmp_path / "one")], device="cpu")


def test_the_command_and_the_page(runs, tmp_path, capsys):
    out = tmp_path / "a.html"
    assert run_program(["report", str(runs / "one"), "-o", str(out), "--device", "cpu"]) == 0
    assert "30 of 30 sentence pairs" in capsys.readouterr().err
    first = out.read_bytes()
    assert run_program(["report", str(runs / "one"), "-o", str(out), "--device", "cpu", "-q"]) == 0
    assert out.read_bytes() == first
    assert b"When it was learned" in first


def test_compare_takes_scores_of_others(runs, lines, tmp_path, capsys, monkeypatch):
    """Gold links as scores are a good dictionary's: IBM Model 1 agrees with them far above chance."""
    import json

    gold = write_gold(lines, tmp_path)
    arguments = ["compare", "--neural", str(runs / "one"), "--device", "cpu", "--json"]
    assert run_program([*arguments, "--scores", f"people={gold}"]) == 0
    table = {(row["u"], row["v"]): row for row in json.loads(capsys.readouterr().out)["agreement"]}
    row = table["people.alpha", "ibm1.beta"]
    assert row["rows"] == sum(len(line.split()) for line in lines[1][120:])
    assert row["agreement"] > 0.8 > row["chance"] + 0.3
    monkeypatch.setattr("alignkit.neural.proxy.proxy_of", None)  # a name is refused before anything is trained
    assert run_program([*arguments, "--scores", f"lstm={gold}"]) == 2
    assert "must be new" in capsys.readouterr().err


def test_errors_by_class_are_of_words(runs, lines, tmp_path):
    """Subwords or not: the classes are those that `evaluate` finds for the same links between words."""
    from alignkit.lab.report.build import against_gold, build_report
    from alignkit.links.from_scores import best_links
    from alignkit.links.links import parse_links
    from alignkit.metrics.aer import WordFacts, error_table
    from alignkit.text.bitext import Bitext

    gold = tmp_path / "gold"
    gold.write_text("".join(f"{line}\n" for line in lines[2][120:]))
    found = build_report(runs=[str(runs / "one")], gold=gold, device="cpu")
    ((each, _, table),) = against_gold(found)
    assert each.name == "lstm.alpha"
    words = [[line.split() for line in side] for side in lines[:2]]
    facts = WordFacts.of(*(Bitext.from_sentences(*(s[a:b] for s in words)) for a, b in ((120, None), (0, 120))))
    # Without BOS and EOS the network's tokens are the words.
    inner = Scores.from_matrices([matrix[:-1, 1:-1] for matrix in find(found, "lstm.alpha").scores])
    wanted = error_table(parse_links("gold", lines[2][120:]), best_links(inner), facts, empty=True)
    shared = table[table["by"] != "probability"].reset_index(drop=True)
    assert shared.equals(wanted)
    assert "probability" in set(table["by"])


def test_an_unfinished_run_is_named(runs, report, monkeypatch):
    from alignkit.lab.report.build import build_report
    from alignkit.neural.training.run_directory import RunDirectory

    assert report.unfinished == ()
    monkeypatch.setattr(RunDirectory, "finished", property(lambda run: run.path.name != "two"))
    assert build_report(runs=[runs / "two"], resamples=0, device="cpu").unfinished == ("two",)
