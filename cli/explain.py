"""``alignkit explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from alignkit.explain.registry import EXPLANATION_TESTS, TRANSLATION_TESTS, UNTRAINED, ExplanationSettings
from alignkit_cli.analysis_options import device_option, json_option
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import needs, quiet_option, setting_option, threads_option, with_given, write_output
from alignkit_cli.parameter_types import COUNT, InputPath, OutputPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

TRAINED = tuple(name for name in EXPLANATION_TESTS if name not in UNTRAINED)
#: The options that only some tests read.
READERS = {"avoid": ("inattention",), "steps": TRAINED}
ALL = "all"


@alignkit_command("explain")
@argument(
    "run_dir",
    metavar="RUN",
    type=InputPath(folder=True),
    help="The directory of a classifier's run, such as FOLDER/standard of `alignkit classify`; or of a run of "
    f"`alignkit train`, which has the tests {', '.join(TRANSLATION_TESTS)}.",
)
@click.option(
    "--other",
    "others",
    multiple=True,
    type=InputPath(folder=True),
    metavar="RUN",
    help="A run of another seed on the same text, such as FOLDER/second, a yardstick for adversaries; "
    "may be given several times.",
)
@click.option(
    "--test",
    "tests",
    multiple=True,
    type=click.Choice([*EXPLANATION_TESTS, ALL]),
    help=f"A test to run; may be given several times. {', '.join(TRAINED)} train networks.  "
    "[default: those that train none]",
)
@setting_option(
    ExplanationSettings,
    "limit",
    type=COUNT,
    help="Test only the first texts, this many.  [default: all]",
)
@setting_option(
    ExplanationSettings,
    "steps",
    type=COUNT,
    help="Training steps of each network that a test trains.  [default: as many as RUN has]",
)
@setting_option(
    ExplanationSettings,
    "avoid",
    multiple=True,
    metavar="WORD",
    help="A word that networks are trained not to attend to (inattention); may be given several times.  [default: "
    f"the {ExplanationSettings.avoided} words that tell most about the label]",
)
@json_option("Print JSON.")
@click.option("--html", type=OutputPath(), help="Also write a page with the tests and every text as a heat map.")
@device_option
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Test a classifier's attention as an explanation of its decisions, on the run's validation text.

    Prints whether attention orders words as gradients and leave-one-out do; what uniform and permuted attention
    change; the share of words to erase until a decision flips, by attention and by other orders; and the attention
    furthest from the learned one that changes the output by at most epsilon. All with 95 % intervals over texts.
    Further tests train networks beside the classifier: adversaries, networks guided by its attention, and networks
    that must not attend to given words.
    """
    from alignkit.explain.translation import explain_translation_run, is_translation_run
    from alignkit.neural.devices import set_threads

    named, translates = options["tests"], is_translation_run(options["run_dir"])
    tests = tuple(EXPLANATION_TESTS) if ALL in named else named or UNTRAINED
    check_tests(tests, options, translates)
    set_threads(options["threads"])
    settings = with_given(ExplanationSettings(), options, tests=tests)
    if translates:
        if options["html"] is not None:
            raise click.UsageError("--html is for classifiers; `alignkit report RUN` shows a translation network.")
        table = explain_translation_run(options["run_dir"], options["others"], settings, options["device"])
    else:
        table = explain_and_report(options, settings)
    write_output(f"{explanation_text(table, options['as_json'])}\n".encode(), None)


def check_tests(tests: Sequence[str], options: dict[str, Any], translates: bool) -> None:
    """Refuse options that none of the chosen tests reads, and a test without what it needs.

    Args:
        tests: those that are chosen.
        options: of the command.
        translates: whether the run is one of a translation network, which has fewer tests.

    Raises:
        click.UsageError: naming the option.
    """
    chosen = set(tests) & set(TRANSLATION_TESTS) if translates else set(tests)
    for option, readers in READERS.items():
        needs(option, f"the test{'s' * (len(readers) > 1)} {', '.join(readers)}", not chosen.isdisjoint(readers))
    if "seeds" in options["tests"] and not options["others"]:
        raise click.UsageError("--test seeds needs --other RUN, a run of another seed.")


def explain_and_report(options: dict[str, Any], settings: ExplanationSettings) -> pd.DataFrame:
    """The tests of a classifier; writes the page, if one is wanted."""
    from alignkit.explain.explain import explanation_table, run_subject

    with progress_bar("networks", options["quiet"]) as bar:
        subject = run_subject(options["run_dir"], options["others"], settings, bar, options["device"])
        table = explanation_table(subject)
    if options["html"] is not None:
        from alignkit.explain.page import explanation_report
        from alignkit.report.page import build_page

        write_output(build_page(explanation_report(subject, table)), options["html"])
    return table


def explanation_text(table: pd.DataFrame, as_json: bool) -> str:
    """The table as text, with what each test means below it, or as JSON."""
    from alignkit.report.tables import NONE, align_columns, to_json

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
