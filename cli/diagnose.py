"""``alignkit diagnose``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import InputError, counted
from alignkit.lab.report.tables import align_columns, class_tables, finite, percent, records, to_json
from alignkit.pipeline.settings import ReadSettings
from alignkit_cli import shared
from alignkit_cli.parameter_types import EmbeddingSource, OutputPath
from alignkit_cli.progress import ProgressBar

if TYPE_CHECKING:
    from alignkit.uses.diagnose.diagnosis import LinkDiagnosis


WORST = 5  #: lines that are named
OTHER_EVIDENCE = (
    "links from evidence outside this text, such as embeddings or a lexicon, are judged too severely; "
    "--embeddings gives the views such evidence"
)


@shared.command("diagnose", "alignkit diagnose corpus.de corpus.en links")
@shared.linked_text_arguments("LINKS")
@click.option("--per-sentence", type=OutputPath())
@click.option("--embeddings", type=EmbeddingSource(), metavar="e5|none|FOLDER|FILE[,FILE]")
@shared.json_option
def diagnose_command(**options: Any) -> None:
    """Estimate how good an alignment is, and show where it is bad, without gold links.

    Several views of the text (its words, their first letters, subwords) are aligned, which takes as long as
    `alignkit align --quality best` on large texts. From their agreement with LINKS and with each other, alignkit
    estimates how many links are right and how many are missing. AER depends on the annotators: it is estimated for
    gold links that are all sure, and for gold links of which some are only possible. Estimates may be off by a few
    points; differences between alignments of one text are more reliable. The interval contains the true AER in
    nine of ten cases, but only in about half of them if the links come from evidence that the views lack, such as
    embeddings.

    Args:
        LINKS: The links of the text, or of its first lines, with or without probabilities; the views learn from
            the whole text.
        --per-sentence: Also write the estimates and counts of every pair as CSV.
        --embeddings: Embeddings as evidence, as for `alignkit align`; without them, links that were made with
            embeddings are judged too severely.
        --json: Print one JSON object; figures are fractions.
    """
    source, target, links = shared.choose_linked_text(options)
    if links is None and not options["sample"]:  # they are malformed, or missing
        links, target = target, None
    if links is None:
        raise click.UsageError("Missing argument LINKS.")
    from alignkit.uses.diagnose.diagnosis import diagnose_links

    more = {name: options[name] for name in ("embeddings", "threads")}
    try:
        with ProgressBar("views", options["quiet"]) as bar:
            found = diagnose_links(
                source, target, links, settings=shared.with_given(ReadSettings(), options), progress=bar, **more
            )
    except InputError as error:
        if target is None and links != "-" and error.path != links and not shared.are_links(links):
            raise click.UsageError(
                "Missing argument LINKS (without TGT, SRC must be one file of both sides)."
            ) from error
        raise
    if options["per_sentence"] is not None:
        table = found.pairs.to_csv(index=False, lineterminator="\n", float_format="%.6g")
        shared.write_output(table.encode(), options["per_sentence"])
    if options["as_json"]:
        facts = {"estimate": finite(asdict(found.expected) | found.facts), "findings": records(found.findings)}
        text = to_json(found.classes, "classes", facts)
    else:
        text = diagnosis_text(found, options["embeddings"] not in (None, "none"))
    shared.write_output(text)


def diagnosis_text(found: LinkDiagnosis, with_embeddings: bool) -> str:
    """The estimate, the facts, the classes, the findings and the worst pairs as text."""
    facts = found.facts
    values = asdict(found.expected) | facts
    share = {name: percent(value) for name, value in values.items() if isinstance(value, float)}
    estimate = (
        "estimated AER {aer} % ({aer_low} to {aer_high} %; precision {precision} %, recall {recall} %) if all "
        "gold links are sure, {aer_with_possible} % ({aer_with_possible_low} to {aer_with_possible_high} %) if "
        "some are only possible"
    ).format(**share)
    if not with_embeddings:
        estimate += f"\n{OTHER_EVIDENCE}"
    lines = [
        f"pairs {facts['pairs']:,}  blank {facts['blank_pairs']:,}  links {facts['links']:,}  per token "
        f"{facts['links_per_token']:.2f}",
        f"words without link: source {share['unlinked_source_words']} %, target "
        f"{share['unlinked_target_words']} % (by the views {share['unlinked_source_words_of_views']} %, "
        f"{share['unlinked_target_words_of_views']} %)",
        f"tokens with several links: source {share['source_tokens_with_several_links']} %, target "
        f"{share['target_tokens_with_several_links']} %",
        f"agreement (F1): LINKS with the views {share['agreement_with_views']} %, the "
        f"{counted(facts['views'], 'view')} {share['agreement_of_views']} %, their directions "
        f"{share['agreement_of_directions']} %",
    ]
    if "calibration_error" in facts:
        lines.append(
            f"probabilities of LINKS: mean {share['mean_probability']} %, off by {share['calibration_error']} "
            "points"
        )

    # The checks that found something, with the lines where there is most of it.
    grid = [["check", "found", "of", "%", "lines"]]
    for row in found.findings.to_dict(orient="records"):
        first = ", ".join(map(str, row["lines"][:WORST]))
        grid.append([row["check"], f"{row['count']:,}", f"{row['of']:,}", percent(row["share"]), first])

    pairs = found.pairs
    errors = pairs["aer"].fillna(0) * (pairs["source_tokens"] + pairs["target_tokens"])
    order = errors.sort_values(ascending=False, kind="stable").index[:WORST]
    shown = [f"{pairs['line'][m]} ({percent(pairs['aer'][m])} %)" for m in order if errors[m] > 0]
    worst = f"most errors expected in lines: {', '.join(shown)}" if shown else "no errors expected"

    classes = class_tables(found.classes, ("links", "wrong", "missed"))
    return "\n\n".join([estimate, "\n".join(lines), classes, align_columns(grid), worst])
