"""Defaults and choices of the command line are the library's."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import get_args

import click
import pytest

import alignkit_data
from alignkit.lab.classification import ClassifySettings
from alignkit.lab.comparison import ALSO, CompareSettings
from alignkit.lab.report.build import ReportInputs
from alignkit.lab.time_course import Part
from alignkit.lab.translation import LabSettings
from alignkit.links.formats import OUTPUT_FORMATS
from alignkit.links.heuristics import HEURISTICS
from alignkit.metrics.registry import SCORE_METRICS
from alignkit.neural.settings import CLASSIFIER_PRESETS, NETWORKS, PRESETS, Keep
from alignkit.pipeline.settings import FitSettings, LinkSettings, ReadSettings
from alignkit_cli.group import cli
from alignkit_cli.main import run

#: command -> (its settings, options that have another default on purpose)
SETTINGS = {
    "align": (FitSettings, set()),
    "compare": (CompareSettings, set()),
    "lab": (LabSettings, set()),
    "classify": (ClassifySettings, set()),
    "report": (ReportInputs, {"models", "scores", "links", "pieces"}),  # which may be given several times
}


#: training options that one test gives at once, all different from the preset's
GIVEN = {"epochs": 3, "steps": 9, "seed": 4}


def options_of(name):
    return {each.name: each for each in cli.get_command(None, name).params if isinstance(each, click.Option)}


def default_of(option):
    """None if the option has no default."""
    return option.to_info_dict()["default"]


@pytest.mark.parametrize("name", SETTINGS)
def test_defaults_are_those_of_the_settings(name):
    settings, others = SETTINGS[name]
    options = options_of(name)
    shared = [field for field in fields(settings) if field.name in options and field.name not in others]
    assert len(shared) >= 2
    for field in shared:
        assert default_of(options[field.name]) == field.default, field.name


@pytest.mark.parametrize("name", ["align", "ibm1", "diagonal", "hmm"])
def test_those_of_reading_and_directions_are_the_same_everywhere(name):
    options = options_of(name)
    for field in (*fields(ReadSettings), *fields(LinkSettings), *fields(FitSettings)):
        own = name != "align" and field.name == "iterations"  # those of one model
        if field.name in options and not own:
            assert options[field.name].default == field.default, field.name


@pytest.mark.parametrize(
    ("name", "option", "choices"),
    [
        ("ibm1", "symmetrization", list(HEURISTICS)),
        ("align", "output_format", list(OUTPUT_FORMATS)),
        ("symmetrize", "method", [name for name, each in HEURISTICS.items() if not each.needs_scores]),
        ("compare", "metric", [metric.name for metric in SCORE_METRICS]),
        ("train", "preset", list(PRESETS)),
        ("train", "architecture", list(NETWORKS)),
        ("train", "keep", list(get_args(Keep))),
        ("lab", "preset", list(PRESETS)),
        ("lab", "on", list(get_args(Part))),
        ("compare", "also", list(ALSO)),
        ("classify", "preset", list(CLASSIFIER_PRESETS)),
    ],
)
def test_choices_are_those_of_the_registries(name, option, choices):
    assert list(options_of(name)[option].type.choices) == choices


@pytest.mark.parametrize("preset", PRESETS)
def test_train_changes_nothing_of_a_preset_that_is_not_asked_for(preset, tmp_path, monkeypatch):
    from alignkit.neural.training import translation

    (tmp_path / "text").write_text("a ||| b\n" * 2)
    monkeypatch.setattr(translation, "train_translation", lambda *given: found.append(given[3]))

    def settings(*more):
        with pytest.raises(AttributeError):  # there is no network to report on
            run(["train", str(tmp_path / "text"), "-o", str(tmp_path / "run"), "--preset", preset, *more])
        return found[-1]

    found = []

    assert settings() == PRESETS[preset]
    asked = [word for name, value in GIVEN.items() for word in (f"--{name}", str(value))]
    changed = settings(*asked, "--attention", "dot", "--set", "text.pieces=77")
    assert changed != PRESETS[preset]
    assert changed == PRESETS[preset].change(text={"pieces": 77}, network={"attention": "dot"}, training=GIVEN)


SAMPLE = [alignkit_data.path(f"sample.{side}") for side in ("de", "en")]


@pytest.mark.parametrize("command", ["show", "gold", "phrases", "terms"])
def test_the_sample_with_its_links(alignkit, write, failure, command):
    text = "0-0 1-1:0.5\n" * 1040
    links = write("links", text)
    expected = alignkit(command, *SAMPLE, links)
    assert expected.code == 0
    assert alignkit(command, "--sample", links).out == expected.out
    assert alignkit(command, "--sample", "-", stdin=text.encode()).out == expected.out
    failure(alignkit(command, "--sample", *SAMPLE), "Give SRC and TGT or --sample, not both")
    failure(alignkit(command), "Missing argument SRC (try --sample")


def test_the_sample_without_links(alignkit, write, failure):
    """Whole, so that what one command writes of it is what the others read."""
    assert json.loads(alignkit("compare", "--sample", "-q", "--json").out)["scored_pairs"] == 1040
    few = alignkit("diagnose", "--sample", write("links", "0-0\n" * 100), "--json")
    assert json.loads(few.out)["estimate"]["pairs"] == 100
    assert "links has 100 lines, the text 1,040 pairs: the links are those of the first\n" in few.err
    failure(alignkit("diagnose", "--sample"), "Missing argument LINKS")
    for command in ("compare", "diagnose"):
        failure(alignkit(command, "--sample", *SAMPLE), "Give SRC and TGT or --sample, not both")
