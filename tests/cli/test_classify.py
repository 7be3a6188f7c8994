"""``alignkit classify`` through real files."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from alignkit.lab.classification import STRENGTHS

QUICK = ["--preset", "small", "--set", "training.steps=12", "--set", "training.batch=8", "--set", "text.minimum=1"]
QUICK += ["--threads", "1", "--device", "cpu", "--lowercase"]


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
    assert "6 texts held out" in first.err
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        *("standard", "second", "uniform", "frozen", "proxy.pt")
    }
    text = write("x", "a b\n"), write("y", "c d\n")
    failure(alignkit("align", "--model", tmp_path / "runs" / "standard", *text), "a run of `alignkit train`")
    again = alignkit(*call, "--json")
    found = json.loads(again.out)
    assert " ".join(found["row"][0]).startswith("quantity u v agreement chance low high rows ties ")
    assert (found["settings"]["training"]["steps"], found["settings"]["training"]["batch"]) == (12, 8)
    assert [row["step"] for row in found["courses"]["second"]] == [0, 10, 12]
    assert (found["labels"], found["training_texts"], found["validation_texts"]) == (["ham", "spam"], 54, 6)
    assert (found["percent"], found["scored"]) == (5, "valid")
    assert [row["strength"] for row in found["penalties"]] == list(STRENGTHS)
    assert found["logistic"] in STRENGTHS
    assert found["accuracy"][-1]["model"] == "majority"
    assert found["accuracy"][-1]["step"] is None
    assert alignkit(*call).out == first.out  # nothing is left to train, and nothing changes
    check_text(first.out.decode(), found)


def check_text(text, found):
    """The text has the numbers of the JSON."""

    def shown(value, form="{:.1f}", factor=100):
        return "-" if value is None else form.format(factor * value)

    title, row, questions, models = text.split("\n\n")
    steps = f"beta_uf is that of step {found['uniform_step']} and alpha_fr that of step {found['frozen_step']}, "
    for part in (
        "per cent of 6 texts whose first word by u is among the top 5 % by v;",
        "\n54 training and 6 validation texts, labels ham and spam;\n",
        f"\n{steps}which agree best with alpha.\n",
        f"alpha's own classifier has {shown(found['best_accuracy'])}.",
    ):
        assert part in title
    head, *rows = (re.split("  +", line.strip()) for line in row.splitlines())
    interval = "95 % interval"
    assert head == ["quantity", "A %", interval, "chance", "A is", "ties", "tau", interval, "xi %"]
    for each, cells in zip(found["row"], rows, strict=True):
        against = each["against_chance"]
        tau = [shown(each[name], "{:.2f}", 1) for name in ("tau", "tau_low", "tau_high")]
        assert cells == [
            *(each["quantity"], shown(each["agreement"]), f"{shown(each['low'])} to {shown(each['high'])}"),
            *(shown(each["chance"]), f"{against} chance" if against else "-", shown(each["ties"])),
            *(tau[0], f"{tau[1]} to {tau[2]}", shown(each["xi"])),
        ]
    asked = [re.split("  +", line) for line in questions.splitlines()]
    assert asked == [[each["quantity"], each["question"]] for each in found["row"]]
    assert asked[0][1].endswith("predict attention?")  # a question, not a finding
    head, *rows = (re.split("  +", line.strip()) for line in models.splitlines())
    assert head == ["model", "accuracy %", interval, "step"]
    for each, cells in zip(found["accuracy"], rows, strict=True):
        span = "-" if each["low"] is None else f"{shown(each['low'])} to {shown(each['high'])}"
        assert cells == [each["model"], shown(each["accuracy"]), span, shown(each["step"], "{:.0f}", 1)]


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
