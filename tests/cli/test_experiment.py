"""``alignkit experiment``: the list, settings, files and errors, on experiments of the smallest size."""

from __future__ import annotations

import importlib.util
import json

import pytest

from alignkit.lab.experiments import EXPERIMENTS

SMALL = ["seeds=2", "length=4", "subset-types=6", "hidden=8", "batch=4", "steps=2", "every=1", "pairs=10"]
TINY = [part for change in SMALL for part in ("--set", change)]


def test_the_list_names_every_experiment_and_its_source(alignkit):
    found = alignkit("experiment", "--list")
    assert found.code == 0
    assert [line.split()[0] for line in found.lines] == list(EXPERIMENTS)
    assert all(experiment.source in found.out.decode() for experiment in EXPERIMENTS.values())


@pytest.mark.parametrize("options", [["--list", "--json"], ["--json", "--list"]])
def test_the_list_as_json(alignkit, options):
    rows = json.loads(alignkit("experiment", *options).out)
    assert [(row["name"], row["summary"]) for row in rows] == [(e.name, e.summary) for e in EXPERIMENTS.values()]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_are_shown_as_set_takes_them(alignkit, name):
    shown = alignkit("experiment", name, "--settings")
    assert shown.code == 0
    changes = [part for line in shown.lines for part in ("--set", line)]
    assert alignkit("experiment", name, "--settings", "--quick", *changes).lines == shown.lines
    quick = alignkit("experiment", name, "--settings", "--quick")
    assert quick.lines != shown.lines  # the quick size is another one


def test_a_run_prints_its_table_and_a_verdict_per_claim(alignkit, tmp_path):
    folder = tmp_path / "new" / "results"
    found = alignkit("experiment", "copying", *TINY, "--quick", "-o", folder, "--threads", "1")
    assert found.code == 0, found.err
    assert "quick size, with seeds=2" in found.lines[0]
    assert found.err.startswith("copying: quick size, with seeds=2")
    facts = json.loads((folder / "copying.json").read_text())
    assert found.out.decode().count("NOT COMPARABLE AT THIS SIZE") == 1
    assert sum(line in {claim["text"] for claim in facts["claims"]} for line in found.lines) == 5
    assert {claim["verdict"] for claim in facts["claims"]} == {"not comparable at this size"}
    assert facts["settings"]["subset_types"] == 6
    assert facts["size"].startswith("quick size")
    assert facts["versions"]["torch"]
    assert [row["runs"] for row in facts["table"]] == [2] * 4
    accuracy = (folder / "copying-accuracy.csv").read_text().splitlines()
    assert accuracy[0] == "kind,run,step,accuracy,loss"
    assert len(accuracy) == 1 + 4 * 2 * 3
    names = {"copying.json", "copying-accuracy.csv", "copying-counts.csv"}
    if importlib.util.find_spec("matplotlib"):
        names.add("copying.png")
        assert (folder / "copying.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in folder.iterdir()} == names
    assert all(str(folder / name) in found.err for name in names)


def test_large_numbers_have_no_exponents(alignkit):
    lines = alignkit("experiment", "toy-classifier", "--quick").out.decode()
    assert "-318,662" in lines
    assert "e+" not in lines


def test_the_same_run_gives_the_same_files_and_json_has_what_they_have(alignkit, tmp_path):
    for folder in ("one", "two"):
        found = alignkit("experiment", "copying", *TINY, "--json", "-q", "-o", tmp_path / folder)
        assert (found.code, found.err) == (0, "")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    assert "not comparable at this size" not in found.out.decode()
    assert json.loads(found.out) == json.loads((tmp_path / "two" / "copying.json").read_text())
    assert "seeds 2 (paper: 20)" in json.loads(found.out)["size"]
    assert ", with seeds=2" in json.loads(found.out)["size"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nothing"], "unknown experiment 'nothing'; choose from copying"),
        (["copying", "--set", "seed=3"], "'seed=3' sets nothing; use NAME=VALUE with a name of hidden, batch"),
        (["copying", "--set", "seeds=x"], "'x' is not a whole number"),
        (["copying", *TINY, "--set", "products=int8"], "products must be one of float32, bfloat16, not 'int8'"),
        (["copying", "--set", "seeds"], "NAME=VALUE"),
        (["copying", "--set", "seeds=0"], "seeds must be above 0, not 0"),
        (["copying", *TINY, "--set", "steps=0"], "steps must be above 0"),
        (["copying", *TINY, "--set", "kinds=permutation,none"], "unknown kind of sequences 'none'"),
        (["copying", *TINY, "--set", "kinds="], "kinds must not be empty"),
        (["copying", *TINY, "--set", "hidden=0"], "hidden must be above 0"),
        (["copying", *TINY, "--set", "pairs=0"], "pairs must be above 0"),
        (["permutation-function", "--set", "types=3"], "no subset sequences of 40 tokens from 3 types"),
        (["locality", "--set", "length=1"], "length of at least 2"),
        (["toy-classifier", "--set", "time=nan"], "'nan' is not a finite number"),
        (["toy-classifier", "--set", "step=0"], "step must be above 0"),
        (["toy-classifier", "--set", "time=-1"], "time must be above 0"),
        (["initial-gradient", "--quick", "--set", "words=-1"], "words must be at least 0"),
        ([], "Missing argument NAME"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_one_line(alignkit, failure, arguments, part):
    failure(alignkit("experiment", *arguments, "-q"), part)
