"""``alignkit classify`` through real files."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from alignkit.lab.classification import STRENGTHS

QUICK = ["--preset", "small", "--set", "training.steps=12", "--set", "training.batch=8", "--set", "text.minimum=1"]
QUICK += ["--threads", "1", "--device", "cpu"]


def data(count: int = 60, labels: tuple[str, ...] = ("ham", "spam")) -> str:
    rng = np.random.default_rng(0)
    lines = []
    for m in range(count):
        label = labels[m % len(labels)]
        words = " ".join(rng.choice(["a", "b", "c", "d"], rng.integers(2, 6)))
        lines.append(f"{label}\t{words}, {label}-Word\n")
    return "".join(lines)


@pytest.fixture(autouse=True)
def leave_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_one_command_trains_and_prints_the_row(alignkit, failure, write, tmp_path):
    call = ["classify", write("d.tsv", data()), "-o", tmp_path / "runs", *QUICK]
    first = alignkit(*call)
    assert first.code == 0, first.err
    out = first.out.decode()
    for part in ("A(alpha, beta_uf)", "A(beta_uf, beta_px)", "A(delta, beta_uf)", "A(alpha, beta)", "chance"):
        assert part in out
    rows = [line for line in out.splitlines() if line.startswith("A(alpha, beta_uf)")]
    assert rows[0].count(" chance ") == 1  # above, at or below
    assert rows[1].endswith("predict attention?")  # a question, not a finding
    for model in ("standard", "second", "uniform", "frozen", "proxy", "majority"):
        assert f"\n{model}" in out
    assert "6 texts held out" in first.err
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        *("standard", "second", "uniform", "frozen", "proxy.pt")
    }
    text = write("x", "a b\n"), write("y", "c d\n")
    failure(alignkit("align", "--model", tmp_path / "runs" / "standard", *text), "a run of `alignkit train`")
    again = alignkit(*call, "--json")
    found = json.loads(again.out)
    assert [line.split("  ")[0] for line in rows] == [found["row"][0]["quantity"]] * 2
    assert " ".join(found["row"][0]).startswith("quantity u v agreement chance low high rows ties ")
    assert (found["settings"]["training"]["steps"], found["settings"]["training"]["batch"]) == (12, 8)
    assert [row["step"] for row in found["courses"]["second"]] == [0, 10, 12]
    facts = {
        "labels": ["ham", "spam"],
        "training_texts": 54,
        "validation_texts": 6,
        "percent": 5,
        "scored": "valid",
    }
    assert facts.items() <= found.items()
    assert [row["strength"] for row in found["penalties"]] == list(STRENGTHS)
    assert found["logistic"] in STRENGTHS
    assert found["accuracy"][-1]["model"] == "majority"
    assert found["accuracy"][-1]["step"] is None
    assert alignkit(*call).out == first.out  # nothing is left to train, and nothing changes


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a\tb\nc d\n", [], "d.tsv, line 2: has no tab"),
        (data(9, ("a", "b", "c")), [], "d.tsv: a classifier has two labels, this text has 3 (a, b, c); keep"),
        (data(), ["--labels", "ham,eggs"], "no text has the label 'eggs'"),
        (data(), ["--set", "network.depth=2"], "use NAME=VALUE with a name of text.tokens"),
        (data(), ["--set", "network.encoder=none"], "encoder must be"),
        (data(), ["--device", "nonsense"], "'nonsense' is none of auto, cpu, cuda"),
        (data(), ["--vectors", "/no/such/file"], "/no/such/file: cannot be read"),
    ],
)
def test_errors_are_one_line(alignkit, write, tmp_path, failure, text, options, message):
    place = write("d.tsv", text)
    failure(alignkit("classify", place, "-o", tmp_path / "runs", *QUICK, "-q", *options), message)
    assert not (tmp_path / "runs" / "standard").exists()
