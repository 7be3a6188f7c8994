"""Options for texts that are larger than what is fitted or linked at a time: --fit-on, --adapt, --shard."""

from __future__ import annotations

import re
from typing import Any

import click

from alignkit.errors import AlignkitError, abbreviated
from alignkit.workflow.settings import AlignSettings
from alignkit_cli.options import Command, apply, setting_option
from alignkit_cli.parameter_types import SEED


class SampleSizeType(click.ParamType):
    """A number of pairs, as 1000000, or a share of them, as 10%."""

    name = "n|p%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from alignkit.workflow.parts import SampleSize

        try:
            SampleSize.parse(str(value))
        except AlignkitError as error:
            self.fail(f"{error}.", param, ctx)
        return str(value)


class ModelSize(click.ParamType):
    """A size of a file, as 100M, or a number of word pairs."""

    name = "size|n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from alignkit.classical.hmm.pruning import parse_model_size

        try:
            parse_model_size(str(value))
        except AlignkitError as error:
            self.fail(f"{error}.", param, ctx)
        return str(value)


class Shard(click.ParamType):
    """A part of a text, as 2/8: the second of eight."""

    name = "i/n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):  # converted already
            return value
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(value))
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            self.fail(f"{abbreviated(str(value))} is not i/n with i from 1 to n, as 2/8.", param, ctx)
        return int(match[1]), int(match[2])


def sample_fit_options(command: Command) -> Command:
    """--fit-on and --seed."""
    size = click.option(
        "--fit-on",
        type=SampleSizeType(),
        help="Fit the model on a random sample of N pairs, or of P percent of them, and link all pairs by it, in "
        "bounded memory: for texts of millions of pairs. The joint model is adapted to each block of 250,000 "
        "pairs. SRC and TGT must be files, which are read three times.",
    )
    seed = click.option(
        "--seed",
        type=SEED,
        default=0,
        show_default=True,
        help="Seed of the sample of --fit-on; nothing else is random.",
    )
    return apply(command, size, seed)


def model_size_option(command: Command) -> Command:
    """--model-size."""
    text = (
        "Prune the saved model to a file of at most this size, as 100M, or to this number of word pairs, those "
        "with the most expected links; what the others had is printed."
    )
    return click.option("--model-size", type=ModelSize(), help=text)(command)


def part_options(command: Command) -> Command:
    """--adapt and --shard."""
    adapt = setting_option(
        AlignSettings,
        "adapt",
        is_flag=True,
        help="With --model: adapt the joint model to each block of 250,000 pairs before linking them, from "
        "standard input to each pair: far better links of words that the model has not seen.",
    )
    shard = click.option(
        "--shard",
        type=Shard(),
        help="With --model: link the i-th of n parts of the text only. The outputs of 1/n to n/n, joined, are "
        "that of the whole text.",
    )
    return apply(command, adapt, shard)
