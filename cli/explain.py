"""``alignkit explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from alignkit.explain.registry import EXPLANATION_TESTS, TRANSLATION_TESTS, UNTRAINED, ExplanationSettings
from alignkit_cli.analysis_options import call_of, csv_option, device_option, json_option
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import needs, quiet_option, setting_option, threads_option, write_output
from alignkit_cli.parameter_types import COUNT, PROBABILITY, SEED, InputPath, OutputPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

TRAINED = tuple(name for name in EXPLANATION_TESTS if name not in UNTRAINED)
#: The options that only some tests read.
READERS = {"epsilon": ("adversary",), "avoid": ("inattention",), "share": ("rationales",), "steps": TRAINED}


@dataclass(frozen=True)
class ExplainCall:
    """Options that are no settings of the tests."""

    run_dir: str
    others: tuple[str, ...]
    all_tests: bool
    device: str
    as_json: bool
    csv: str | None
    html: str | None
    threads: int | None
    quiet: bool


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
    type=click.Choice(list(EXPLANATION_TESTS)),
    help=f"A test to run; may be given several times. {', '.join(TRAINED)} train networks.  "
    "[default: those that train none]",
)
@click.option("--all", "all_tests", is_flag=True, help="Run all tests.")
@setting_option(
    ExplanationSettings,
    "epsilon",
    type=PROBABILITY,
    help="How far adversarial attention may change the probability.",
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
@setting_option(
    ExplanationSettings,
    "share",
    type=PROBABILITY,
    help="The share of a text's words that rationales may select.",
)
@setting_option(
    ExplanationSettings, "seed", type=SEED, help="The seed of random orders, the bootstrap and trained networks."
)
@json_option("Print JSON.")
@csv_option
@click.option("--html", type=OutputPath(), help="Also write a page with the tests and every text as a heat map.")
@device_option
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Test a classifier's attention as an explanation of its decisions, on the run's validation text.

    Prints whether attention orders words as gradients and leave-one-out do; what uniform and permuted attention
    change; the share of words to erase until a decision flips, by attention and by other orders; and the attention
    furthest from the learned one that changes the output by at most epsilon. All with 95 % intervals over texts.
    Further tests train networks beside the classifier: adversaries, networks guided by its attention, networks
    that must not attend to given words, networks that select a few words, and gates.
    """
    from alignkit.explain.translation import explain_translation_run, is_translation_run
    from alignkit.neural.devices import set_threads

    call = call_of(ExplainCall, options)
    translates = is_translation_run(call.run_dir)
    check_tests(options["tests"], call, translates)
    set_threads(call.threads)
    settings = settings_of(call, {name: value for name, value in options.items() if name not in vars(call)})
    if translates:
        if call.html is not None:
            raise click.UsageError("--html is for classifiers; `alignkit report RUN` shows a translation network.")
        table = explain_translation_run(call.run_dir, call.others, settings, call.device)
    else:
        table = explain_and_report(call, settings)
    if call.csv is not None:
        write_output(table.to_csv(index=False, lineterminator="\n").encode(), call.csv)
    write_output(f"{explanation_text(table, call.as_json)}\n".encode(), None)


def check_tests(named: tuple[str, ...], call: ExplainCall, translates: bool) -> None:
    """Refuse options that none of the chosen tests reads, and a test without what it needs.

    Args:
        named: the tests that were named.
        call: the other options.
        translates: whether the run is one of a translation network, which has fewer tests.

    Raises:
        click.UsageError: naming the option.
    """
    chosen = set(EXPLANATION_TESTS) if call.all_tests else set(named or UNTRAINED)
    chosen &= set(TRANSLATION_TESTS) if translates else chosen
    for option, readers in READERS.items():
        needs(option, f"the test{'s' * (len(readers) > 1)} {', '.join(readers)}", not chosen.isdisjoint(readers))
    if "seeds" in named and not call.others:
        raise click.UsageError("--test seeds needs --other RUN, a run of another seed.")


def explain_and_report(call: ExplainCall, settings: ExplanationSettings) -> pd.DataFrame:
    """The tests of a classifier; writes the page, if one is wanted."""
    from alignkit.explain.explain import explanation_table, run_subject

    with progress_bar("networks", call.quiet) as bar:
        subject = run_subject(call.run_dir, call.others, settings, bar, call.device)
        table = explanation_table(subject)
    if call.html is not None:
        from alignkit.explain.page import explanation_report
        from alignkit.report.page import build_page

        write_output(build_page(explanation_report(subject, table)), call.html)
    return table


def settings_of(call: ExplainCall, options: dict[str, Any]) -> ExplanationSettings:
    """The settings of the tests."""
    if call.all_tests and options["tests"]:
        raise click.UsageError("Give --test or --all, not both.")
    tests = tuple(EXPLANATION_TESTS) if call.all_tests else options["tests"] or UNTRAINED
    return ExplanationSettings(**{**options, "tests": tests})


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
