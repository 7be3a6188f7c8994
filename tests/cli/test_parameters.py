"""Every parameter of every command is checked before any work begins, and every command is explained."""

from __future__ import annotations

import json
import os
import sys

import click
import pytest

from alignkit_cli.group import COMMANDS, cli
from alignkit_cli.parameter_types import (
    PERCENT,
    InputPath,
    NamedInputPath,
    OutputFolder,
    OutputPath,
    RealNumber,
)
from alignkit_cli.shared import ExplainedArgument, explanations

#: parameters that are any text
FREE = {"columns", "prefix", "source_language", "target_language"}
#: parameters that their command checks itself, before any work: names of a registry, settings by name
FREE |= {"assignments", "avoid", "name", "model", "host"}
NUMBERS = (click.IntRange, click.FloatRange)
OUTPUTS = (OutputPath, OutputFolder)


def given(parameter):
    """How a parameter is given: an option by its last name, an argument by nothing."""
    return [parameter.opts[-1]] if isinstance(parameter, click.Option) else []


PARAMETERS = [
    pytest.param(name, parameter, id=f"{name}-{parameter.name}")
    for name in COMMANDS
    for parameter in cli.get_command(None, name).params
]


def those(*kinds):
    return [each for each in PARAMETERS if isinstance(each.values[1].type, kinds)]


PERCENTAGES = [each for each in PARAMETERS if each.values[1].type is PERCENT]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_no_parameter_is_unchecked(name, parameter):
    kinds = parameter.type.types if isinstance(parameter.type, click.Tuple) else [parameter.type]
    for kind in kinds[1:] if name == "report" and parameter.name == "pieces" else kinds:
        if isinstance(kind, (click.types.IntParamType, click.types.FloatParamType)):
            bounded = isinstance(kind, (click.IntRange, RealNumber)) and None not in (kind.min, kind.max)
            assert bounded, "take a number of alignkit_cli.parameter_types, which has bounds"
        assert parameter.name in FREE or not isinstance(
            kind, (click.types.StringParamType, click.Path, click.File)
        ), "take a type that checks the value, as those of alignkit_cli.parameter_types"


@pytest.mark.parametrize(
    "value", ["1" + 39 * "0", "-1" + 39 * "0", "1e999999999", "nan", "-inf", 5000 * "9", "", "x"]
)
@pytest.mark.parametrize(("name", "parameter"), those(*NUMBERS) + PERCENTAGES)
def test_numbers_out_of_all_bounds(alignkit, failure, name, parameter, value):
    outcome = alignkit(name, *given(parameter), value)
    failure(outcome, given(parameter)[0])
    assert len(outcome.err) < 300


def test_seeds_and_threads_end_somewhere(alignkit, failure):
    for value in (2**63, 2**64, -1):
        failure(alignkit("lab", "--seed", value), "--seed", str(value))
    for value in (0, 1025, 10**6, 10**23):
        failure(alignkit("compare", "--threads", value), "--threads", str(value))


@pytest.mark.parametrize(("name", "parameter"), those(*OUTPUTS))
def test_outputs_that_cannot_be_written(alignkit, failure, write, tmp_path, name, parameter):
    ending = (getattr(parameter.type, "endings", None) or ("",))[0]
    bad = [write("file", "") / f"x{ending}"]
    if isinstance(parameter.type, OutputPath):
        bad += [tmp_path / "none" / f"x{ending}", tmp_path, tmp_path / ("x.xz" if parameter.type.gzip else "x.gz")]
    if ending:
        bad.append(tmp_path / "x.txt")
    for path in bad:
        failure(alignkit(name, *given(parameter), path), str(path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


#: options of several input files; that of `heads` is of a format and an output
SEVERAL_INPUTS = [each for each in those(click.Tuple) if each.values[0] != "heads"]


@pytest.mark.parametrize(("name", "parameter"), those(InputPath, NamedInputPath) + SEVERAL_INPUTS)
def test_inputs_that_are_not_there(alignkit, failure, tmp_path, name, parameter):
    count = max(parameter.nargs, 1)
    prefix = "a=" if isinstance(parameter.type, NamedInputPath) else ""
    before = ["name"] if name == "attention" and isinstance(parameter, click.Argument) else given(parameter)
    failure(alignkit(name, *before, *count * [f"{prefix}{tmp_path}/none"]), f"{tmp_path}/none", "No such")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_explained(alignkit, name):
    command = cli.get_command(None, name)
    text = alignkit(name, "--help").out.decode()
    assert ("\nArguments:\n" in text) == any(isinstance(each, click.Argument) for each in command.params)
    for parameter in command.params:
        said = parameter.explanation if isinstance(parameter, ExplainedArgument) else parameter.help
        assert said, parameter.name
        assert said[0].isupper() or said.startswith(("alpha:", "pharaoh:", "posterior:", "tsv:")), said
        assert said.endswith((".", "]")), said
    names = {name for each in command.params for name in (*each.opts, str(each.metavar).strip("[]."))}
    assert explanations(command.callback.__doc__)[1].keys() <= names
    for word in ("room", "house"):
        assert word not in text.lower()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["algin"], "Did you mean 'align'?"),
        (["align", "--qiet"], "--quiet"),
        (["train", "--zzzzzz"], "See 'alignkit train --help'"),
        (["train", "--seed"], "See 'alignkit train --help'"),
        (["lab", "--train", "text"], "See 'alignkit lab --help'"),
        (["zzzzzz"], "There is no command 'zzzzzz'. See 'alignkit --help'"),
        (["align", "--iterations", "3"], "No such option '--iterations'. See 'alignkit align --help'"),
        (["ibm1", "--iters", "3"], "--iterations"),
    ],
    ids=" ".join,
)
def test_a_slip_of_the_finger_is_understood(alignkit, failure, arguments, hint):
    failure(alignkit(*arguments), hint)


def test_standard_input_is_read_once(alignkit, failure, text):
    failure(
        alignkit("train", "-", "--valid", "-", text[1], "-o", "x"), "Only one file can be read from standard input"
    )


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["lab", "."], "--csv-steps"),
        (["lab", "other", "--uniform", "."], "--csv-steps"),
        (["report", "."], "-o"),
        (["align", "text", "--model", "."], "-o"),
        (["align", "text", "--model", "runs"], "--sentence-scores"),
        (["align", "text", "--embeddings", "."], "--save-model"),
        (["align", "text", "--embeddings", "text,runs/a.npz"], "--trace"),
        (["heads", "text", "text", "--model", "runs"], "--save-model"),
    ],
    ids=lambda value: "".join(value),
)
def test_a_file_of_a_folder_that_is_read_is_not_replaced(
    alignkit, failure, write, tmp_path, monkeypatch, arguments, output
):
    monkeypatch.chdir(tmp_path)
    for name in ("runs", "other"):
        (tmp_path / name).mkdir()
    write("text", "a ||| b\n")
    write("best.pt", "what shows a run")
    kept = write("runs/a.npz", "kept")
    failure(alignkit(*arguments, output, "runs/a.npz"), f"would replace the input {kept}")
    assert kept.read_text() == "kept"
    write("runs/page.html", "an earlier one")
    write("runs/steps.csv", "an earlier one")
    for name in ("new.npz", "page.html", "steps.csv"):
        assert "would replace" not in alignkit(*arguments, output, f"runs/{name}").err


@pytest.fixture
def runs(write, tmp_path, monkeypatch):
    """What shows a run of `train` and one of `classify`, and a model."""
    monkeypatch.chdir(tmp_path)
    for name, kind in (
        ("network", "alignkit.run"),
        ("lab/general-0", "alignkit.run"),
        ("texts", "alignkit.classifier-run"),
    ):
        (tmp_path / name).mkdir(parents=True)
        write(f"{name}/config.json", json.dumps({"kind": kind}))
        for file in ("best.pt", "state.pt", "train.npz", "log.jsonl"):
            write(f"{name}/{file}", "kept")
    write("m.npz", "a model")
    write("text", "a ||| b\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("report texts -o p.html", "`alignkit classify`; give a run directory of `alignkit train`"),
        ("lab texts", "texts: is a run of `alignkit classify`"),
        ("lab network --other texts", "texts: is a run of `alignkit classify`"),
        ("compare --neural texts", "texts: is a run of `alignkit classify`"),
        ("compare --neural texts/best.pt", "texts/best.pt: is a run of `alignkit classify`"),
        ("explain network", "network: is a run of `alignkit train`; give a run directory of `alignkit classify`"),
        ("explain m.npz", "m.npz: is not a run directory; give a run directory of `alignkit classify`"),
        (
            "explain texts/best.pt",
            "texts/best.pt: is not a run directory; give a run directory of `alignkit cl",
        ),
        (
            "lab network/best.pt",
            "network/best.pt: is not a run directory; give a run directory of `alignkit t",
        ),
        ("lab network --uniform network/best.pt", "network/best.pt: is not a run directory"),
        ("report m.npz -o p.html", "m.npz: is neither a run nor a checkpoint (.pt); give a run directory of"),
        ("explain .", "is not a run; give one of those in it: network, texts"),
    ],
)
def test_another_run_is_seen_before_torch_is_loaded(alignkit, failure, runs, monkeypatch, arguments, problem):
    monkeypatch.setitem(sys.modules, "torch", None)
    failure(alignkit(*arguments.split()), problem)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("classify text -o network", "network holds a run of `alignkit train`; give another folder"),
        ("lab --train text text -o network", "network holds a run of `alignkit train`; give another folder"),
        ("lab --train text text -o texts", "texts holds a run of `alignkit classify`; give another folder"),
        ("train text -o texts", "texts holds a run of `alignkit classify`; give another folder"),
        ("lab --train text text -o lab --csv-steps lab/general-0/log.jsonl", "log.jsonl is a file of a run"),
        ("align text -o network/state.pt", "network/state.pt is a file of a run"),
        ("align text --model network/best.pt -o network/train.npz", "network/train.npz is a file of a run"),
        ("cooc text -o texts/train.npz", "texts/train.npz is a file of a run"),
    ],
)
def test_a_run_is_not_written_into(alignkit, failure, runs, tmp_path, arguments, problem):
    before = {path: path.read_text() for path in tmp_path.rglob("*.*") if path.is_file()}
    failure(alignkit(*arguments.split()), problem)
    assert {path: path.read_text() for path in tmp_path.rglob("*.*") if path.is_file()} == before


def test_a_saved_model_may_be_updated(alignkit, text, tmp_path):
    model = tmp_path / "m"
    assert alignkit("ibm1", "-q", *text, "--save-model", model).code == 0
    before = model.read_bytes()
    assert alignkit("ibm1", "-q", *text, "--start", model, "--save-model", model).code == 0
    assert model.read_bytes() != before


def test_devices_may_be_any_output(alignkit, enough_text):
    outcome = alignkit("align", "-q", *enough_text, "-o", os.devnull, "--sentence-scores", os.devnull)
    assert (outcome.code, outcome.out, outcome.err) == (0, b"", "")
