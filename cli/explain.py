"""``alignkit explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alignkit.lab.explain.registry import EXPLANATION_TESTS, UNTRAINED, ExplanationSettings
from alignkit.lab.report.tables import NONE, align_columns, to_json
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, RunPath

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"


@shared.command(
    "explain",
    "alignkit explain runs/reviews/standard",
    trained=", ".join(name for name in EXPLANATION_TESTS if name not in UNTRAINED),
    avoided=ExplanationSettings.avoided,
)
@shared.argument("run_dir", "RUN", type=RunPath("classify", checkpoint=False))
@click.option("--other", "others", multiple=True, type=RunPath("classify", checkpoint=False), metavar="RUN")
@click.option("--test", "tests", multiple=True, type=click.Choice([*EXPLANATION_TESTS, ALL]))
@shared.setting_option(ExplanationSettings, "limit", type=COUNT)
@shared.setting_option(ExplanationSettings, "avoid", multiple=True, metavar="WORD")
@shared.json_option
@shared.device_option
@shared.work_options
def explain_command(**options: Any) -> None:
    """Test a classifier's attention as an explanation of its decisions, on the run's validation text.

    Prints, with 95 % intervals over texts, whether attention orders words as gradients and leave-one-out do; how
    much uniform and permuted attention change the output; the share of words to erase until a decision flips, by
    attention and by other orders; and the attention furthest from the learned one that changes the output by at
    most epsilon. Further tests train other networks: adversaries, networks guided by the classifier's attention,
    and networks that must not attend to given words.

    Args:
        RUN: The directory of a classifier's run, such as FOLDER/standard of `alignkit classify`.
        --other: A run of another seed on the same text, such as FOLDER/second, to compare adversaries with; may be
            given several times.
        --test: A test to run; may be given several times. $trained train networks. [default: those that train
            none]
        --avoid: A word that networks are trained not to attend to (inattention); may be given several times.
            [default: the $avoided words most indicative of the label]
        --limit: Test only the first N texts. [default: all]
        --json: Print JSON.
    """
    from alignkit.lab.explain.subject import explanation_table, subject_of_run
    from alignkit.neural.devices import set_threads

    named = tuple(dict.fromkeys(options["tests"]))
    tests = tuple(EXPLANATION_TESTS) if ALL in named else named or UNTRAINED
    shared.needs("avoid", "the test inattention", "inattention" in tests)
    shared.needs("others", "the test seeds", "seeds" in tests)
    if "seeds" in named and not options["others"]:
        raise click.UsageError("--test seeds needs --other RUN, a run of another seed.")
    set_threads(options["threads"])
    settings = shared.with_given(ExplanationSettings(), options, tests=tests)
    with shared.ProgressBar("network", options["quiet"]) as bar:
        subject = subject_of_run(
            options["run_dir"], options["others"], settings, progress=bar, device=options["device"]
        )
        table = explanation_table(subject)
    shared.write_output(explanation_text(table, options["as_json"]))


def explanation_text(table: pd.DataFrame, as_json: bool) -> str:
    """The table as text, with what each test means below it, or as JSON."""
    if as_json:
        return to_json(table, "explanation")

    def shown(value: float) -> str:
        return NONE if value != value else f"{value:.3f}"

    grid = [["test", "value", "95 % interval", "n"]]
    grid += [
        [f"  {row.test}", shown(row.value), f"{shown(row.low)} to {shown(row.high)}", str(row.n)]
        for row in table.itertuples()
    ]
    head, *lines = align_columns(grid).split("\n")
    parts = [head]
    for name, places in table.groupby("group", sort=False).indices.items():
        parts += ["", f"{name}: {EXPLANATION_TESTS[str(name)].summary}", *(lines[place] for place in places)]
    width = max((len(row.test) for row in table.itertuples()), default=0)
    return "\n".join([*parts, "", *(f"{row.test:<{width}}  {row.meaning}" for row in table.itertuples())])
