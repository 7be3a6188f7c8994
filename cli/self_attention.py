"""``alignkit self-attention``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alignkit_cli.analysis_options import device_option, json_option
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import quiet_option, reading_options, threads_option, write_output
from alignkit_cli.parameter_types import TEXT, InputPath, OutputPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    import numpy as np

    from alignkit.heads.self_attention import HeadReport

LEGEND = """\
share: of the tokens whose largest weight falls on such a token, % (95 % interval); chance: of a head that picks
one at random. identifiable: the mean share of the squared weights that has an effect on what the head gives, %."""


@alignkit_command("self-attention")
@argument(
    "run",
    metavar="RUN",
    type=InputPath(folder=True),
    help="A run directory or checkpoint of `alignkit train --architecture transformer`.",
)
@argument("source", metavar="SRC", type=TEXT, help="Source text.")
@click.option(
    "--rollout",
    type=OutputPath(".npz"),
    help="Also write attention rollout: the share of each input word in the encoder's state of each word, all "
    "layers multiplied.",
)
@click.option(
    "--flow",
    type=OutputPath(".npz"),
    help="Also write attention flow: the most that can flow from each input word to each state through the "
    "layers' weights. About a second for a sentence of 20 tokens.",
)
@json_option("Print JSON: every head and role, and identifiability.")
@device_option
@reading_options
@threads_option
@quiet_option
def command(run: str, source: str, quiet: bool, **options: Any) -> None:
    """Show what the self-attention heads of a transformer's encoder do.

    Each head is shown with the role that its largest weights fit best, against chance: the previous or the next
    token, the token itself, other subwords of the same word, the rarest word of the sentence, punctuation, or the
    sentence's begin and end. Rarity is measured in the training text if RUN is a run directory, else in SRC.
    --json has every role of every head.
    """
    from alignkit.heads.self_attention import head_report, input_attention
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.translation import load_network
    from alignkit.text.reading import read_lines

    set_threads(options["threads"])
    lines = read_lines(source, **{name: options[name] for name in ("encoding_errors", "lowercase")})
    network = load_network(run, options["device"])
    with progress_bar("self-attention", quiet) as bar:
        found = head_report(network, lines, training_counts(run), bar)
        for method in ("rollout", "flow"):
            if options[method] is not None:
                input_attention(network, lines, method, bar).save(options[method])
    text = report_json(found) if options["as_json"] else report_text(found)
    write_output(f"{text}\n".encode(), None)


def training_counts(path: str) -> np.ndarray | None:
    """How often each token is seen in the training text of a run; None if there is no run."""
    import numpy as np

    from alignkit.neural.training.translation import find_run

    run = find_run(path)
    if run is None:
        return None
    source = run.train.source
    return np.bincount(source.tokens, minlength=len(source.vocabulary))


def report_json(found: HeadReport) -> str:
    """Everything, as one JSON object."""
    from alignkit.report.tables import records, to_json

    return to_json(found.roles, "roles", {"identifiability": records(found.identifiability)})


def report_text(found: HeadReport) -> str:
    """A row for each head: its role, what speaks for it, and how far its weights can be identified."""
    from alignkit.report.tables import align_columns

    grid = [["head", "role", "share", "interval", "chance", "identifiable"]]
    for row in found.identifiability.to_dict(orient="records"):
        own = found.roles[(found.roles["layer"] == row["layer"]) & (found.roles["head"] == row["head"])]
        certain = own[own["certain"] & (own["difference"] > 0)].sort_values("difference", ascending=False)
        cells = ["none above chance", "", "", ""]
        if len(certain):
            best = certain.iloc[0]
            interval = f"{100 * best['low']:.1f} to {100 * best['high']:.1f}"
            cells = [best["role"], f"{100 * best['share']:.1f}", interval, f"{100 * best['chance']:.1f}"]
        grid.append([f"{row['layer']:.0f}.{row['head']:.0f}", *cells, f"{100 * row['share']:.1f}"])
    return f"{align_columns(grid)}\n\n{LEGEND}"
