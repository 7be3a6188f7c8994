"""``alignkit evaluate`` and ``diagnose``: how good links are, by gold links or without them."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import InputError, counted
from alignkit.lab.report.tables import align_columns, class_tables, finite, percent, records, to_json
from alignkit.links.formats import GOLD_BASES, GOLD_FORMATS
from alignkit.links.gold import FEWEST_LINES
from alignkit.pipeline.settings import ReadSettings
from alignkit_cli import shared
from alignkit_cli.parameter_types import EmbeddingSource, InputPath, OutputPath

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.metrics.aer import LinkCounts
    from alignkit.uses.diagnose.diagnosis import LinkDiagnosis

LINKS = InputPath(stdin=True, scores=True)
NAMES = {"AER": "aer", "precision": "precision", "recall": "recall", "F1": "f1"}
WORST = 5  #: lines that are named
OTHER_EVIDENCE = (
    "links from evidence outside this text, such as embeddings or a lexicon, are judged too severely; "
    "--embeddings gives the views such evidence"
)


@shared.command("evaluate", "alignkit evaluate gold links --by-class", fewest_lines=FEWEST_LINES)
@shared.argument("gold", "GOLD", required=False, type=LINKS)
@shared.argument("hypothesis", "HYP", required=False, type=LINKS)
@shared.choice_option("--gold-format", choices=GOLD_FORMATS)
@shared.choice_option("--gold-base", "base", choices=GOLD_BASES)
@shared.choice_option("--hyp-base", "hypothesis_base", choices=GOLD_BASES)
@click.option("--sample", is_flag=True)
@shared.files_option("--text")
@click.option("--by-class", is_flag=True)
@click.option("--per-sentence", type=OutputPath())
@shared.json_option
@shared.quiet_option
def evaluate_command(gold: str | None, hypothesis: str | None, per_sentence: str | None, **options: Any) -> None:
    """Score links against gold links: alignment error rate (AER), precision, recall and F1.

    Each comes with its 95 % bootstrap interval. GOLD and HYP have a line of links for each sentence pair, counted
    from 0, with the source first. Lines of HYP after those of GOLD are not compared, so the test pairs can precede
    the training text.

    Args:
        GOLD: Gold links: sure ones as "s-t", possible ones as "spt" or "s?t". With --sample, give HYP alone.
        HYP: The links to score. Lines beyond those of GOLD are not compared. It may also be a head of an attention
            file, FILE:LAYER.HEAD (see `alignkit heads`), which links each target word to its best source word.
        --gold-format: pharaoh: a line of links per sentence pair; naacl: a line "sentence s t [S|P]" per link, all
            counted from 1. auto decides by the first line, here and in HYP.
        --gold-base: The first token index in GOLD. auto takes 1 for naacl, unless it links 0 with 0; for pharaoh
            it takes 1, with a warning, if index 0 never occurs and the sentence lengths (--text) or at least
            $fewest_lines lines confirm it.
        --hyp-base: The same of HYP.
        --sample: Score links of the sample's text (`alignkit align --sample`) against its gold links.
        --text: The text, to find the index base and links outside their sentence pair, which are errors. It may
            continue after the last gold pair, as HYP may; --by-class counts words in all of it.
        --by-class: Also print errors by class: one-to-many links, and the links' probabilities if HYP has them;
            with --text also word frequency, punctuation and sentence length.
        --per-sentence: Also write counts and measures of every pair as CSV.
        --json: Print one JSON object; figures are fractions.
    """
    if options["sample"]:
        import alignkit_data

        if hypothesis is not None:
            raise click.UsageError("Give GOLD or --sample, not both.")
        gold, hypothesis = os.fspath(alignkit_data.path("test.gold")), gold
        options["text"] = options["text"] or shared.sample_files()
    if gold is None or hypothesis is None:
        raise click.UsageError(f"Missing argument {'HYP' if gold else 'GOLD'}.")
    from alignkit.uses.evaluation import evaluate_files

    how = {name: options[name] for name in ("gold_format", "hypothesis_base", "text", "by_class")}
    counts, errors = evaluate_files(gold, hypothesis, gold_base=options["base"], **how)
    if per_sentence is not None:
        shared.write_output(pairs_csv(counts).encode(), per_sentence)
    shared.write_output(as_text(counts, errors, options["as_json"]))


def as_text(counts: LinkCounts, errors: pd.DataFrame | None, as_json: bool) -> str:
    """The result as one line of text and the errors by class as tables, or everything as JSON."""
    total = counts.total()
    intervals = total.intervals
    if as_json:
        fields: dict[str, Any] = {name: getattr(total, name) for name in NAMES.values()}
        fields |= {"links": total.links, "sure": total.sure, "possible": total.possible, "sentences": len(counts)}
        for name, (low, high) in intervals.items():
            fields |= {f"{name}_low": low, f"{name}_high": high}
        if errors is not None:
            fields["classes"] = records(errors)
        return json.dumps(finite(fields))
    shares = []
    for name, field in NAMES.items():
        low, high = intervals[field]
        spread = "" if math.isnan(low) else f" ({100 * low:.1f}-{100 * high:.1f})"
        shares.append(f"{name} {100 * getattr(total, field):.1f} %{spread}")
    line = "  ".join([*shares, f"links {total.links}"])
    if errors is None:
        return line
    note = "wrong: proposed, but no gold link; missed: a sure gold link that was not proposed"
    return "\n\n".join([line, class_tables(errors, ("links", "sure", "wrong", "missed")), note])


def pairs_csv(counts: LinkCounts) -> str:
    """CSV with a row per sentence pair; empty where a measure is not defined."""
    import pandas as pd

    from alignkit.metrics.aer import AER

    names = ("links", "sure", "possible", "links_in_sure", "links_in_possible")
    columns, measures = dict(zip(names, vars(counts).values(), strict=True)), AER.values(counts)
    columns |= {name: measures[name] for name in NAMES.values()}
    table = pd.DataFrame(columns, index=pd.RangeIndex(1, len(counts) + 1, name="line"))
    return str(table.to_csv(float_format="%.6g", lineterminator="\n"))


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
        with shared.ProgressBar("views", options["quiet"]) as bar:
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
