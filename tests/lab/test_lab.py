"""The lab on a planted text, through the library and through the command."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.time_course import COLUMNS, series
from alignkit.lab.translation import AUTHORS, LabSettings, lab
from alignkit.metrics.agreement import agreement
from alignkit.metrics.kendall import kendall
from alignkit.metrics.registry import find_metric
from alignkit.neural.aligners import load_checkpoint
from alignkit.neural.settings import RunSettings, TransformerSettings
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.neural.training.translation import train_translation
from alignkit.text.pairs import LinePairs
from alignkit_cli.lab import _text, render_lab
from alignkit_cli.main import run as run_program
from tests.lab.conftest import settings_of

PAPERS = [
    ("lstm.alpha", "uniform.beta"),
    ("uniform.beta", "proxy.beta"),
    ("lstm.delta", "uniform.beta"),
    ("lstm.alpha", "lstm.beta"),
]
OTHER = [("lstm.alpha", "other.beta")]
KINDS = ("alpha", "beta", "delta")
OURS = [
    ("lstm.alpha", v) for v in ("proxy.beta", "ibm1(1).beta", "ibm1(1).alpha", "ibm1(5).beta", "ibm1(5).alpha")
]


@pytest.fixture(scope="module")
def found(folder):
    settings = LabSettings(all_steps=True)
    return lab(folder / "general-0", folder / "general-1", folder / "uniform-0", settings, "cpu")


@pytest.fixture(scope="module")
def runs(folder):
    """The first run, the second, and the uniform one."""
    return [TranslationRun(folder / name) for name in ("general-0", "general-1", "uniform-0")]


@pytest.fixture(scope="module")
def alpha(runs):
    """The first run's attention in its validation text."""
    return runs[0].load(device="cpu").score(runs[0].valid, "alpha")


def row(found, u, v):
    return found.table.set_index(["u", "v"]).loc[(u, v)]


def rows_of(found):
    return zip(found.table.u, found.table.v, strict=True)


def test_the_papers_row_stands_first_and_ours_after_it(found):
    assert list(zip(found.table.u, found.table.v, strict=True)) == PAPERS + OTHER + OURS
    assert list(found.table.columns) == [
        *("u", "v", "agreement", "chance", "low", "high", "rows", "ties", "xi_accuracy", "xi_bleu"),
        *("tau", "tau_low", "tau_high", "tau_rows", "tau_undefined", "tau_xi_accuracy", "tau_xi_bleu"),
        *("not_reached", "beta_step"),
    ]


def test_every_row_is_that_of_the_scores_themselves(runs, found):
    run = runs[0]
    networks = zip(("lstm", "other", "uniform"), (each.load(device="cpu") for each in runs), strict=True)
    scores = {f"{name}.{kind}": network.score(run.valid, kind) for name, network in networks for kind in KINDS}
    scores["proxy.beta"] = load_checkpoint(run.path / "proxy.pt", "cpu").score(run.valid, "beta")
    for iterations in (1, 5):
        model = fit_ibm1(run.train, iterations=iterations, null=False)
        for kind in ("alpha", "beta"):
            scores[f"ibm1({iterations}).{kind}"] = model.score(run.valid, kind)
    for u, v in (PAPERS + OTHER + OURS)[1:]:
        one, expected = row(found, u, v), agreement(scores[u], scores[v])
        assert {name: one[name] for name in vars(expected)} == vars(expected)
        order = kendall(scores[u], scores[v])
        assert (one.tau, one.tau_low, one.tau_undefined) == (order.tau, order.low, order.undefined)


def test_uniform_is_taken_where_alpha_agrees_with_it_most(runs, alpha, found):
    run, _, uniform = runs
    values = {
        step: agreement(alpha, uniform.load(step, "cpu").score(run.valid, "beta")).agreement
        for step in uniform.checkpoints
    }
    assert row(found, *PAPERS[0]).agreement == max(values.values())
    step = min(step for step, value in values.items() if value == max(values.values()))
    assert any(f"step {step} of the uniform run" in text for text in found.notes)


@pytest.mark.parametrize("measured", ["agreement", "tau"])
def test_xi_is_the_accuracy_at_the_first_step_above_the_level(runs, alpha, found, measured):
    run, other, _ = runs
    accuracy = dict(other.log.series("valid.accuracy"))
    steps = []
    for step in other.checkpoints:
        moved = other.load(step, "cpu").score(run.valid, "alpha")
        like = agreement(alpha, moved).agreement if measured == "agreement" else kendall(alpha, moved).tau
        steps.append((step, like))
    column = "xi_accuracy" if measured == "agreement" else "tau_xi_accuracy"
    reached = 0
    for one in found.table.to_dict(orient="records"):
        above = [step for step, like in steps if like > one[measured]]
        if above:
            assert one[column] == accuracy[above[0]]
            reached += 1
        else:
            assert math.isnan(one[column])
            assert column in one["not_reached"].split()
    assert reached >= 1
    assert found.table.xi_bleu.isna().all()
    assert not found.table.not_reached.str.contains("bleu").any()


def test_xi_star_is_the_first_runs_best(runs, found):
    assert found.stars == {"accuracy": max(value for _, value in runs[0].log.series("valid.accuracy"))}


def test_time_courses_have_every_logged_step_of_every_run(runs, found):
    course = found.time_courses
    assert tuple(course.columns) == COLUMNS
    kinds = {"lstm": "alpha", "other": "alpha", "uniform": "beta"}
    for (label, kind), run in zip(kinds.items(), runs, strict=True):
        steps, values = series(course, f"A({kind}(step), ibm1(5).beta)", label)
        assert steps.tolist() == list(run.checkpoints)
        assert values.tolist() != sorted(values.tolist())[:1] * len(values)
        steps, values = series(course, "valid.accuracy", label)
        assert list(zip(steps.tolist(), values.tolist(), strict=True)) == run.log.series("valid.accuracy")
    first, run, _ = runs
    step = list(run.checkpoints)[3]
    moved, fixed = (
        run.load(step, "cpu").score(run.valid, "alpha"),
        first.load(device="cpu").score(run.valid, "delta"),
    )
    there = course[(course.run == "other") & (course.step == step)].set_index("name").value
    expected = agreement(moved, fixed)
    assert there["A(alpha(step), lstm.delta)"] == expected.agreement
    assert there["A(lstm.delta, alpha(step))"] == agreement(fixed, moved).agreement


def test_the_second_seeds_attention_is_followed_towards_the_firsts(runs, alpha, found):
    run, other, _ = runs
    assert found.seeds.step.tolist() == list(other.checkpoints)
    step = list(other.checkpoints)[-2]
    moved = other.load(step, "cpu").score(run.valid, "alpha")
    line = found.seeds.set_index("step").loc[step]
    assert line.agreement == agreement(alpha, moved).agreement
    assert line.accuracy == dict(other.log.series("valid.accuracy"))[step]
    assert math.isnan(line.bleu)


@pytest.fixture(scope="module")
def authors(folder):
    runs = folder / "general-0", folder / "general-1", folder / "uniform-0"
    return lab(*runs, device="cpu", **AUTHORS)


def test_the_authors_conventions(runs, authors):
    """alpha by the best accuracy, both directions, and the largest value over the uniform run's steps."""
    run, other, uniform = runs
    accuracy = {k: v for k, v in run.log.series("valid.accuracy") if k in run.checkpoints}
    best = max(accuracy, key=accuracy.__getitem__)
    assert authors.facts["network"]["step"] == best
    network = run.load(best, "cpu")
    assert list(rows_of(authors))[3:6] == [(v, u) for u, v in PAPERS[:3]]
    scores = {f"lstm.{kind}": network.score(run.valid, kind) for kind in ("alpha", "delta")}
    scores["proxy.beta"] = load_checkpoint(run.path / "proxy-bias.pt", "cpu").score(run.valid, "beta")
    rows = authors.table.set_index(["u", "v"])
    betas = {
        name: {step: each.load(step, "cpu").score(run.valid, "beta") for step in each.checkpoints}
        for name, each in (("other.beta", other), ("uniform.beta", uniform))
    }
    compared = [(name, "uniform.beta") for name in scores]
    for u, v in [*compared, *(pair[::-1] for pair in compared), ("lstm.alpha", "other.beta")]:
        moving = betas[u if u in betas else v]
        values = {
            step: agreement(scores.get(u, beta), scores.get(v, beta)).agreement for step, beta in moving.items()
        }
        assert rows.agreement[u, v] == max(values.values()), (u, v)
        assert values[int(rows.beta_step[u, v])] == max(values.values())
    own = agreement(scores["lstm.alpha"], network.score(run.valid, "beta")).agreement
    assert rows.agreement["lstm.alpha", "lstm.beta"] == own


def test_a_performance_that_was_not_logged_cannot_choose(folder):
    with pytest.raises(AlignkitError, match=r"no logged step with bleu .*train with --set training.bleu=logged"):
        lab(folder / "general-0", device="cpu", alpha_by="bleu")


def test_what_is_missing_is_left_out_and_said(folder):
    settings = LabSettings(limit=10)
    alone = lab(folder / "general-0", settings=settings, device="cpu")
    assert list(zip(alone.table.u, alone.table.v, strict=True)) == PAPERS[3:] + OURS
    assert alone.table.xi_accuracy.isna().all()
    assert (alone.table.not_reached == "").all()
    assert any("--other" in text for text in alone.notes)
    assert any("--uniform" in text for text in alone.notes)
    assert alone.facts["scored_pairs"] == 10
    train = lab(folder / "general-0", settings=LabSettings(on="train", limit=20, percent="11/2"), device="cpu")
    assert train.facts["text"] == "training"
    assert train.facts["scored_pairs"] == 20
    assert train.facts["percent"] == 5.5
    assert train.facts["ibm1"] == {"iterations": 5, "null": False}  # as the paper has it


def test_runs_without_checkpoints_give_what_they_can(folder, lines, tmp_path):
    sides = [side[:250] for side in lines], [side[250:] for side in lines]
    for name, attention in (("learned", "general"), ("uniform", "uniform")):
        settings = settings_of(keep="best", steps=3, seed=5).change(network={"attention": attention})
        train_translation(tmp_path / name, LinePairs(*sides[0]), LinePairs(*sides[1]), settings, device="cpu")
    runs = folder / "general-0", tmp_path / "learned", tmp_path / "uniform"
    found = lab(*runs, LabSettings(), device="cpu")
    assert list(zip(found.table.u, found.table.v, strict=True)) == PAPERS + OTHER + OURS
    assert found.table.xi_accuracy.isna().all()
    assert found.seeds is None
    assert sum("keeps no checkpoints" in text for text in found.notes) == 2


def test_a_transformer_has_attention_too(folder, lines, tmp_path):
    texts = [LinePairs(*(side[part] for side in lines)) for part in (slice(0, 250), slice(250, 300))]
    own = settings_of(steps=1, keep="best")
    network = TransformerSettings(embedding=8, heads=2, hidden=8, layers=1)
    train_translation(tmp_path / "run", *texts, RunSettings(own.text, network, own.training), device="cpu")
    (tmp_path / "run" / "proxy.pt").write_bytes((folder / "general-0" / "proxy.pt").read_bytes())
    settings = LabSettings(limit=5)
    found = lab(tmp_path / "run", folder / "general-1", settings=settings, device="cpu")
    own_names = {name.replace("lstm", "transformer") for pair in PAPERS[3:] + OTHER + OURS for name in pair}
    assert {*found.table.u, *found.table.v} == own_names
    assert "A(transformer.alpha, alpha(step)) %" in render_lab(found, settings, as_json=False)


def test_runs_that_do_not_belong_together(folder, lines, tmp_path):
    def refused(match, *runs):
        with pytest.raises(AlignkitError, match=match):
            lab(*runs, device="cpu")

    general, uniform = folder / "general-0", folder / "uniform-0"
    refused("uniform attention; give it as --uniform", uniform)
    refused("not trained with attention, which --other", general, uniform)
    refused("not trained with uniform attention, which --uniform", general, None, folder / "general-1")
    refused("another one", general, general)
    for path in (tmp_path / "none", tmp_path, general / "best.pt"):
        refused(r"has no best\.pt, so it is not a run.*; give a run directory of `alignkit train`", path)
    refused(f"{folder}: is not a run; give one of those in it: {general}", folder)
    settings = settings_of(steps=2).change(network={"attention": "uniform"})
    texts = [LinePairs(*(side[part] for side in lines)) for part in (slice(200), slice(250, None))]
    train_translation(tmp_path / "else", *texts, settings, device="cpu")
    refused("not trained on the text", general, None, tmp_path / "else")


def test_command(folder, found, capsys, tmp_path):
    arguments = ["lab", folder, "--device", "cpu", "--threads", 1]
    files = ["--csv-steps", tmp_path / "steps.csv"]
    assert run_program([*map(str, [*arguments, *files]), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(one["u"], one["v"]) for one in result["lab"]] == PAPERS + OTHER + OURS
    assert result["lab"][3]["agreement"] == row(found, *PAPERS[3]).agreement
    assert result["lab"][0]["xi_bleu"] is None
    assert result["xi_star"] == found.stars
    assert result["lab"][0]["agreement"] == pytest.approx(found.table.agreement[0])
    steps = pd.read_csv(tmp_path / "steps.csv")
    assert np.allclose(steps.value, found.time_courses.value)
    assert run_program([*map(str, arguments), "--authors", "--limit", "8"]) == 0
    text = capsys.readouterr().out
    assert "A(lstm.alpha, uniform.beta)" in text
    assert "A(uniform.beta, lstm.alpha)" in text
    assert "xi*: token accuracy" in text
    assert "A(lstm.alpha, alpha(step)) %" in text
    assert len(result["seeds"]) == len(found.seeds)
    assert "xi BLEU" not in text  # nothing to show in that column


def test_one_command_trains_and_measures(lines, capsys, tmp_path):
    texts = []
    for name, part in (("train", slice(0, 60)), ("valid", slice(250, 260))):
        for side, language in zip(lines, ("de", "en"), strict=True):
            path = tmp_path / f"{name}.{language}"
            path.write_text("\n".join(side[part]) + "\n")
            texts.append(str(path))
    given = ("text.tokens=words", "training.steps=12", "network.hidden=16")
    arguments = ["lab", "--train", *texts[:2], "--valid", *texts[2:], "-o", str(tmp_path / "folder"), "--json"]
    arguments += ["--preset", "small", *(word for each in given for word in ("--set", each))]
    arguments += ["--device", "cpu", "--threads", "1", "--bleu"]
    assert run_program(arguments) == 0
    captured = capsys.readouterr()
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["general-0", "general-1", "uniform-0"]
    assert len(json.loads(captured.out)["lab"]) == len(PAPERS + OTHER + OURS)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "folder").rglob("best.pt")}
    assert run_program([*arguments, "-q"]) == 0
    assert capsys.readouterr().out == captured.out
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "Give RUN"),
        ([".", "--train", "blank", "blank", "-o", "c"], "not both"),
        (["--train", "blank", "blank"], "-o FOLDER"),
        ([".", "--valid", "blank", "blank"], "belong to --train"),
        ([".", "--lowercase"], "--lowercase goes only with --train"),
        (["none"], "No such file or directory"),
        (["--train", "none.de", "none.en", "-o", "folder"], "none.de"),
        (
            ["--train", "blank", "blank", "-o", "folder"],
            "no pair with words on both sides to train on beside those ",
        ),
        (
            ["--train", "blank", "blank", "--valid", "blank", "blank", "-o", "folder"],
            "to train on; give another text",
        ),
        (
            ["--train", "one", "one", "--valid", "one", "one", "-o", "folder", "--seed", str(2**63 - 1)],
            "setting seed must be a whole number",
        ),
    ],
)
def test_wrong_usage_is_one_line(arguments, problem, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank").write_text("\n" * 60)
    (tmp_path / "one").write_text("a\n")
    assert run_program(["lab", *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("name", ["agreement", "tau"])
def test_a_value_that_is_undefined_is_no_number(name):
    assert _text(find_metric(name), math.nan) == "-"
