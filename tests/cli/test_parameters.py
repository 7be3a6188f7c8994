"""Every parameter of every command is checked before any work begins, and every command is explained."""

from __future__ import annotations

import os
from importlib import import_module

import click
import pytest

from alignkit_cli.command import Command, ExplainedArgument
from alignkit_cli.group import COMMANDS
from alignkit_cli.parameter_types import (
    ExistingFolder,
    InputPath,
    MemorySize,
    NamedInputPath,
    OutputFolder,
    OutputPath,
    Percentage,
    RealNumber,
    WholeNumber,
)

#: parameters that are any text
FREE = {"title", "label_column", "text_column", "prefix", "source_language", "target_language"}
#: parameters that their command checks itself, before any work: names of a registry, settings by name
OWN = {
    *(("experiment", "name"), ("experiment", "changes"), ("fetch", "name"), ("attention", "model")),
    *(("train", "assignments"), ("compare-mechanisms", "mechanisms"), ("compare-mechanisms", "assignments")),
}
    for parameter in command.params:
        said = parameter.explanation if isinstance(parameter, ExplainedArgument) else parameter.help
        assert said, parameter.name
        assert said[0].isupper() or said.startswith(("alpha:", "pharaoh:", "posterior:", "tsv:")), said
        assert said.endswith((".", "]")), said
    for word in ("room", "house"):
        assert word not in text.lower()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["algin"], "Did you mean 'align'?"),
        (["align", "--qiet"], "Did you mean '--quiet'?"),
        (["align", "--symmetrise"], "'--symmetrize' is an option of ibm1, diagonal, hmm"),
        (["ibm1", "--model", "x"], "Did you mean '--save-model'? '--model' is an option of align"),
        (["train", "--zzzzzz"], "There is no option '--zzzzzz'. See 'alignkit train --help'"),
        (["zzzzzz"], "There is no command 'zzzzzz'. See 'alignkit --help'"),
    ],
    ids=" ".join,
)
def test_a_slip_of_the_finger_is_understood(alignkit, failure, arguments, hint):
    failure(alignkit(*arguments), hint)


def test_standard_input_is_read_once(alignkit, failure, text):
    failure(
        alignkit("train", "-", "--valid", "-", text[1], "-o", "x"), "Only one file can be read from standard input"
    )


def test_a_saved_model_may_be_updated(alignkit, text, tmp_path):
    model = tmp_path / "m"
    assert alignkit("ibm1", "-q", *text, "--save-model", model).code == 0
    before = model.read_bytes()
    assert alignkit("ibm1", "-q", *text, "--start", model, "--save-model", model).code == 0
    assert model.read_bytes() != before


def test_devices_may_be_any_output(alignkit, text):
    outcome = alignkit("ibm1", "-q", *text, "-o", os.devnull, "--sentence-scores", os.devnull)
    assert (outcome.code, outcome.out, outcome.err) == (0, b"", "")
