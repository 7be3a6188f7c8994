"""The scripts of benchmarks/ name missing inputs in one line."""

from __future__ import annotations

import json
import math
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = [path.name for path in sorted(FOLDER.glob("*.py")) if "__main__" in path.read_text(encoding="utf-8")]
OUT = ["-o", "out"]
TEXTS = "no such file; give files with a sentence on each line"


@pytest.fixture
def lacks(monkeypatch, tmp_path, capsys):
    """Runs a script in an empty folder, and returns its line on standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delenv("ALIGNKIT_DATA", raising=False)

    def call(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        before = set(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
        out, err = capsys.readouterr()
        assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"{name}: error: ")
        assert set(tmp_path.rglob("*")) == before
        return err

    return call


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (["speed.py", "x.de", "x.en"], f"x.de, x.en: {TEXTS}"),
        (["memory.py", "x.de", "x.en", "--folder", "f", *OUT], f"x.de, x.en: {TEXTS}"),
        (["fast_align.py", "x.de", "x.en", *OUT], f"x.de, x.en: {TEXTS}"),
        (["mechanisms.py", "a", "b", "c", "d", "runs", *OUT], f"a, b, c, d: {TEXTS}"),
        (["neural.py", "a", "b", "c", "d"], f"a, b, c, d: {TEXTS}"),
        (["language_model.py", "train", "x", "run", "--kind", "llama"], f"train.en: {TEXTS}"),
        (["ablation.py", "run", "x", "xlwa_en_es", "run", "--stage", "curve"], "ALIGNKIT_DATA is not set"),
        (["agreement.py", "none", "runs", *OUT], "none/val.en: no such file; DATA holds these parts of Multi30k"),
        (["classification.py", ".", "runs", *OUT], "sst2/train.tsv, sst2/dev.tsv: no such file; write SST-2"),
        (["classification.py", ".", "runs", "--only", "sms", *OUT], "as lines of LABEL<tab>TEXT"),
        (["explanation.py", ".", "runs", *OUT], "sst2/train.tsv, sst2/dev.tsv: no such file; write SST-2"),
        (["quality_plot.py", "none.json", *OUT], "none.json: no such file; benchmarks/quality.py writes it"),
        (["guided_attention.py", *OUT], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
        (["embeddings.py", *OUT], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
        (["doubtful.py", *OUT], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
        (["projection.py", *OUT], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
        (["language_heads.py", "texts", "folder"], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
        (["diagnose.py", *OUT], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
        (["quality.py", *OUT], "ALIGNKIT_DATA is not set; ALIGNKIT_DATA=DATA names a folder"),
    ],
)
def test_missing_files_are_one_line(lacks, call, part):
    assert part in lacks(*call)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_explains_itself_and_has_a_line_in_the_index(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.syspath_prepend(FOLDER)
    with suppress(SystemExit):
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert "Usage" in capsys.readouterr().out.replace("usage", "Usage")
    assert f"| `{name} " in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_an_incomplete_data_folder_is_one_line(lacks, monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNKIT_DATA", str(tmp_path))
    assert f"{tmp_path}/aer has no set with test.gold; ALIGNKIT_DATA=DATA names" in lacks("quality.py", *OUT)
    folder = tmp_path / "aer" / "one"
    folder.mkdir(parents=True)
    for name in ("test.gold", "test.src", "test.tgt", "train.tgt"):
        (folder / name).write_text("")
    assert "aer/one/train.src: no such file" in lacks("quality.py", *OUT)
    assert "aer/two/test.gold: no such file" in lacks("quality.py", "--sets", "two", *OUT)
    text = str(folder / "test.src")
    assert "aer/two/test.gold: no such file" in lacks("fast_align.py", text, text, "--aer", "two", *OUT)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.30, 0.40, "the intervals overlap"),
        (0.10, 0.25, "the intervals overlap"),
        (0.10, 0.19, "the intervals do not overlap"),
        (0.36, 0.50, "the intervals do not overlap"),
    ],
)
def test_the_regression_is_compared_with_the_proxy_by_their_intervals(monkeypatch, low, high, verdict):
    """Of A.10: A(beta_uf, beta_px) lies in 0.20 to 0.35."""
    monkeypatch.syspath_prepend(FOLDER)
    ends = {
        "A(alpha, beta_uf)": (0.5, 0.6),
        "A(alpha, alpha_fr)": (0.1, 0.2),
        "A(beta_uf, beta_log)": (low, high),
        "A(beta_uf, beta_px)": (0.20, 0.35),
        "A(beta_px, beta_log)": (0.3, 0.4),
        "A(alpha, alpha_2)": (0.01, 0.05),
    }
    rows = [
        {"quantity": name, "agreement": (least + most) / 2, "low": least, "high": most, "chance": 0.1}
        for name, (least, most) in ends.items()
    ]
    peak = SimpleNamespace(step=50, rise=(0.2, 0.1, 0.3), fall=(0.1, -0.1, 0.2))
    models = ["standard", "uniform", "majority"]
    accuracy = pd.DataFrame({"model": models, "accuracy": [0.9, 0.9, 0.5], "low": [0.8, 0.8, 0.5]})
    claims = runpy.run_path(str(FOLDER / "classification.py"))["claims"]
    found = claims(SimpleNamespace(row=pd.DataFrame(rows), accuracy=accuracy, rise_and_fall=peak))
    verdicts = ["holds", "holds", "holds", "undecided", "undecided", verdict, "does not hold"]
    assert [each["verdict"] for each in found] == verdicts


@pytest.mark.parametrize(
    ("values", "options", "cause"),
    [
        ([0.309, 0.313], {}, "consistent: differs by +0.001 [-0.024, +0.026]"),
        ([0.40, 0.41], {}, "unexplained"),
        ([0.40, 0.41], {"unfinished": True}, "our runs are not finished"),
        ([0.40, 0.41], {"unfinished": True, "measured": "the bias"}, "the bias"),
        ([0.35], {}, "unexplained"),
        ([0.3108], {}, "none: the last digit"),
        ([0.3112], {}, "unexplained"),
        ([0.30, 0.32], {}, "too wide to tell: differs by +0.000 [-0.127, +0.127]"),
        ([0.31], {"unlike": "another text"}, "another text"),
        ([], {"unlike": "another text"}, "another text"),
        ([], {}, ""),
    ],
)
def test_a_difference_to_the_papers_has_a_cause_or_is_unexplained(monkeypatch, values, options, cause):
    """The authors' figure is 0.31. Without an interval, nothing lies within it."""
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "papers.py"))
    row = module["Row"]("A", 0.31, module["Cell"].of_seeds(values), module["Cell"](), "rule", **options)
    assert row.cause() == cause
    assert (row.cells()[2] == "not measured yet") == (not values)


def test_batches_of_any_lengths_are_a_cause_where_they_come_nearer_to_the_authors(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "papers.py"))
    seeds = [
        pd.DataFrame(
            {"step": [100, 500], "agreement": [0.13 + n / 1000, 0.38 + n / 1000], "accuracy": [0.2, 0.3 + n]}
        )
        for n in range(2)
    ]
    labs = [module["Kept"](pd.DataFrame(), each) for each in seeds]
    random = [{"step": 100, "agreement": 0.06}, {"step": 500, "agreement": 0.2}]  # the authors: 0.165 and 0.267
    causes = {row.name: row.cause() for row in module["curve_rows"](labs, True, random)}
    assert causes["A(alpha of A, alpha of B) at step 100"] == "unexplained"
    assert causes["A(alpha of A, alpha of B) at step 500"] == "batches of any lengths give 0.200 (1 seed)"
    assert not causes["A(alpha of A, alpha of B) at step 1000"]


def test_one_seed_of_the_sum_variant_is_held_against_how_far_seeds_are_apart(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "papers_translation.py"))
    assert module["seeds_apart"]([38.0, math.nan, 37.0]) == pytest.approx(
        12.706, abs=1e-3
    )  # t(1) times sqrt(1/2 * 2)
    assert math.isnan(module["seeds_apart"]([38.0]))

    def cause(best, usual):
        runs = {"sum-1": best} | {f"general-{n}": value for n, value in enumerate(usual)}
        states = {name: {"best_bleu": value, "finished": True} for name, value in runs.items()}
        return module["sum_row"](states).cause()

    apart = "one seed, and two of the usual network are up to 3.7 apart"
    assert cause(37.0, [37.4, 38.0, 38.6]) == f"too wide to tell: {apart}"
    assert cause(37.0, [38.0, 38.0, 38.1]) == "unexplained"
    assert cause(37.0, [38.0]) == "unexplained"


def test_seeds_that_follow_the_same_second_run_are_told(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "papers_translation.py"))

    def lab(*accuracy):
        frame = pd.DataFrame({"step": [0, 500, 1000][: len(accuracy)], "agreement": 0.1, "accuracy": accuracy})
        return module["Kept"](pd.DataFrame(), frame)

    cell = module["Cell"](0.4, 0.3, 0.5, "3 seeds")
    told = module["of_second_runs"]
    assert told(cell, [lab(0.1, 0.2, 0.3), lab(0.1, 0.3, 0.4), lab(0.1, 0.3)]).over == "3 seeds, 2 second runs"
    assert told(cell, [lab(0.1, 0.2, 0.3), lab(0.1, 0.3, 0.4), lab(0.1, 0.4)]).over == "3 seeds"
    assert told(cell, [lab(0.1, 0.2)]).over == "3 seeds"


def test_saliency_at_step_0_and_later(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "papers.py"))
    courses = {f"general-{n}": [{"step": 0, "agreement": 0.07 + n / 100}] for n in range(2)}
    row = {
        "u": "uniform.beta",
        "v": "lstm.delta",
        "chance": 0.072,
        "low": 0.1,
        "high": 0.3,
        "uniform": "uniform-1",
    }
    labs = [module["Kept"](pd.DataFrame([row | {"agreement": 0.25 + n / 100}]), None) for n in range(2)]
    start, later = module["saliency_rows"](courses, labs, True)
    assert (start.authors, later.authors) == (0.065, 0.27)
    assert start.theirs.value == pytest.approx(0.075)
    assert later.theirs.value == pytest.approx(0.255)
    other = module["Kept"](pd.DataFrame([row | {"agreement": 0.275, "uniform": "u-2"}]), None)
    (_, later) = module["saliency_rows"](courses, [*labs, other], True)
    assert (later.theirs.value, later.theirs.over) == (pytest.approx(0.265), "2 uniform runs, 3 pairs of runs")


def test_the_papers_table_without_runs_says_what_is_not_measured(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "papers.py"))
    (tmp_path / "runs").mkdir()
    for keep in (False, True):
        module["main"].callback(tmp_path / "runs", tmp_path / "results", False, keep, "cpu", None)
    found = json.loads((tmp_path / "results" / "papers.json").read_text())
    assert len(found["table"]) > 35
    assert all(row["theirs"]["value"] is None for row in found["table"])
    assert "| A(alpha, beta_uf) | 0.310 | not measured yet |" in (tmp_path / "results" / "papers.md").read_text()


def test_a_missing_peer_is_one_line(lacks, tmp_path):
    text = tmp_path / "text"
    text.write_text("a b\n")
    call = ["fast_align.py", str(text), str(text), *OUT, "--peer-python"]
    assert "/bin/false has no systran-align; pip install systran-align" in lacks(*call, "/bin/false")
    assert "no-python: No such file or directory" in lacks(*call, str(tmp_path / "no-python"))


def test_the_picture_shows_each_aligner_at_its_best(monkeypatch, tmp_path):
    """Of several ways to join directions the one with the lowest error rate, on one thread; ours first."""
    pytest.importorskip("matplotlib", reason="matplotlib, of the extra plot, is not installed")
    monkeypatch.syspath_prepend(FOLDER)
    module = runpy.run_path(str(FOLDER / "quality_plot.py"))
    keys = ("set", "aligner", "threads", "aer", "seconds")
    rows = [
        *(("x", "eflomal", 1, 0.3, 9.0), ("x", "eflomal", 1, 0.2, 9.0), ("x", "eflomal", 2, 0.1, 9.0)),
        *(("y", "alignkit align (joint HMM)", 1, 0.1, 1.0), ("x", "alignkit hmm", 1, 0.1, 1.0)),
        ("x", "alignkit align (joint HMM)", 1, 0.15, 2.0),
    ]
    quality = [dict(zip(keys, row, strict=True)) for row in rows]
    found = module["best_rows"](quality)
    assert list(found) == ["alignkit align (joint HMM)", "eflomal"]
    assert found["eflomal"]["x"]["aer"] == 0.2
    results, picture = tmp_path / "q.json", tmp_path / "q.png"
    results.write_text(json.dumps({"quality": quality}))
    for _ in range(2):
        module["main"].callback(results, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 150_000


def test_pictures_of_the_readme_are_small():
    for path in (FOLDER / "results" / "quality.png", FOLDER.parent / "docs" / "report.png"):
        assert path.stat().st_size < 150_000


def test_what_was_measured_of_runs_is_not_measured_again(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    module = runpy.run_path(str(FOLDER / "papers.py"))
    table = pd.DataFrame([{"u": "lstm.alpha", "v": "uniform.beta", "agreement": 0.3, "xi": math.nan}])
    found = module["Kept"](table, pd.DataFrame({"step": [0, 50], "agreement": [0.1, 0.2]}))
    place, state = tmp_path / "labs" / "a-ours.json", {"a": {"last_step": 50, "best_accuracy": 0.1}, "bleu": False}
    assert module["earlier"](place, state) is None
    module["keep_lab"](place, state, found)
    again = module["earlier"](place, state)
    assert again.table["agreement"].tolist() == [0.3]
    assert again.table["xi"].isna().all()
    assert again.seeds.to_dict("list") == {"step": [0, 50], "agreement": [0.1, 0.2]}
    assert module["earlier"](place, state | {"a": {"last_step": 60}}) is None


def test_each_run_with_attention_is_measured_with_its_own_uniform_run(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    measured_runs = runpy.run_path(str(FOLDER / "papers.py"))["measured_runs"]
    names = ["general-1", "general-2", "general-3", "sum-1", "uniform-4", "uniform-5"]
    partners = [("general-1", "uniform-4"), ("general-2", "uniform-5"), ("general-3", "uniform-4")]
    assert measured_runs({name: name for name in names}) == partners
    pairs = [("general-1", "uniform-4"), ("general-1", "uniform-5")]
    assert measured_runs({name: name for name in ("general-1", "uniform-4", "uniform-5")}) == pairs
    assert measured_runs({"general-1": "general-1"}) == []


def test_more_looks_at_results_need_a_stricter_level(monkeypatch):
    """One look is an ordinary test; two at the same results are one."""
    monkeypatch.syspath_prepend(str(FOLDER))
    level_of = runpy.run_path(str(FOLDER / "transplants.py"))["level_of"]
    assert level_of((12,)) == pytest.approx(0.05, abs=0.002)
    assert level_of((12, 12)) == level_of((12,))
    assert level_of((5, 15, 20)) == pytest.approx(0.0206, abs=0.001)  # as a reader of the results computed it
