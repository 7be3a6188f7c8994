"""``alignkit project``."""

from __future__ import annotations

import json

import click

from alignkit.project.files import FORMATS
from alignkit.project.spans import DEFAULT_RULE, RULES
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import note, output_option, quiet_option, threads_option, write_output
from alignkit_cli.parameter_types import SHARE, TEXT, OutputPath
from alignkit_cli.progress import progress_bar

#: Half a character, as "\ud83d", is legal in JSON, and is written as it is there.
ENCODING = "utf-8", "backslashreplace"
SHOWN = 5  #: labels and tags without a place that are named


def _listed(texts: dict[str, str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


@alignkit_command("project", "alignkit project tagged.de plain.en links -o tagged.en")
@argument("source", metavar="SRC", type=TEXT, help="The source text with tags or labels, as --format says.")
@argument("target", metavar="TGT", type=TEXT, help="Its translation without them, a sentence per line.")
@argument(
    "links",
    metavar="[LINKS]",
    required=False,
    type=TEXT,
    help="Links between the words of SRC, without its tags, and TGT, with or without probabilities. Without LINKS, "
    "the text is aligned.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(list(FORMATS)),
    default="tags",
    show_default=True,
    help=f"What SRC is, and the result. {_listed({name: text for name, (_, text) in FORMATS.items()})}.",
)
@click.option(
    "--rule",
    type=click.Choice(list(RULES)),
    default=DEFAULT_RULE,
    show_default=True,
    help="Which target words are those of a span. "
    + _listed({name: rule.help for name, rule in RULES.items()})
    + ".",
)
@click.option(
    "--least",
    type=SHARE,
    default=0.0,
    show_default=True,
    help="Do not place spans whose words have links of a lower mean probability; words without a link count as 0.",
)
@click.option("--unplaced", type=OutputPath(), help="Also write what had no place as JSON lines.")
@output_option
@threads_option
@quiet_option
def command(
    source: str,
    target: str,
    links: str | None,
    output: str | None,
    unplaced: str | None,
    quiet: bool,
    **options: object,
) -> None:
    """Put the labels, marked spans or inline tags of a text into its translation, through links.

    Prints a sentence for each sentence of SRC. Tags stay well-formed: none is lost or repeated, elements keep
    their nesting, and nothing else of TGT changes. Tags without linked words stand where the words after them are.
    Labels and spans without a place are left out. Both are counted on standard error.
    """
    from alignkit.project.files import project_files

    with progress_bar("aligning", quiet) as bar:
        found = project_files(source, target, links, progress=bar, **options)  # type: ignore[arg-type]
    lines = [json.dumps(item, ensure_ascii=False) for item in found.unplaced]
    if unplaced is not None:
        write_output("".join(f"{line}\n" for line in lines).encode(*ENCODING), unplaced)
    write_output((text.encode(*ENCODING) for text in found.sentences), output)
    for line in lines[:SHOWN]:
        note(f"no place: {line}", quiet)
    more = "; --unplaced FILE lists all" if len(lines) > SHOWN and unplaced is None else ""
    note(f"{found}{more}", quiet)
