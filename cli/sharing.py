"""What the commands do when torchrun has started them: each rank fits and links its part of the text."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alignkit.distributed.launch import find_launch
from alignkit.workflow.settings import AlignSettings
from alignkit_cli.options import Command, apply, choose_text, note, note_blanks, setting_option
from alignkit_cli.parameter_types import OutputFolder
from alignkit_cli.progress import FitProgress

if TYPE_CHECKING:
    from alignkit.distributed.arrays import ArrayGroup
    from alignkit.workflow.sharing import SharedText

MANIFEST = "manifest.json"


def is_shared() -> bool:
    """Whether torchrun has started this process together with others."""
    launch = find_launch()
    return launch is not None and launch.world_size > 1


def sharing_options(command: Command) -> Command:
    """--checkpoint and --parts."""
    checkpoint = setting_option(
        AlignSettings,
        "checkpoint",
        metavar="FOLDER",
        type=OutputFolder(),
        help="Keep the state of the fit in FOLDER after each iteration. The same command, started again after it "
        "was interrupted or killed, goes on after the last complete iteration, with the same result.",
    )
    parts = click.option(
        "--parts",
        metavar="FOLDER",
        type=OutputFolder(),
        help="Under torchrun: leave the lines of each rank in a file of its own in FOLDER, with a manifest.json "
        "that has their order, instead of joining them.",
    )
    return apply(command, checkpoint, parts)


def fit_and_write_shared(settings: AlignSettings, options: Mapping[str, Any], fits: int = 1) -> None:
    """Fit and align together with the other ranks, and write what is asked for.

    Args:
        settings: what to fit.
        options: of the command.
        fits: how many directions are fitted one after the other.
    """
    source, target = choose_text(options["source"], options["target"], options["sample"])
    _check(options)
    from alignkit.workflow.sharing import align_shared, joined_ranks

    with joined_ranks() as ranks:
        quiet = options["quiet"] or ranks.rank > 0
        with FitProgress(fits, quiet) as progress:
            shared = align_shared(
                ranks,
                source,
                target,
                settings,
                threads=options["threads"],
                progress=progress,
                gathers_tables=options["save_model"] is not None,
            )
        if progress.summary:
            note(f"{shared.aligned.aligner.name} at {ranks.world_size} ranks: {progress.summary}", quiet)
        if options["save_model"] is not None and ranks.rank == 0:
            with ranks.writing():
                shared.aligned.aligner.save(options["save_model"])
        _write(ranks, shared, options)
        _note_blanks(ranks, shared, quiet)


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that ranks cannot share; raises click.UsageError."""
    for name in ("save_scores", "model", "fit_on"):
        if options.get(name) is not None:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"{option} does not go with torchrun; run the command without it.")
    if options["parts"] is not None and options["output"] is not None:
        raise click.UsageError("--parts leaves the lines in parts; it does not go with --output.")


def _write(ranks: ArrayGroup, shared: SharedText, options: Mapping[str, Any]) -> None:
    """Write the lines of all ranks, joined or in parts."""
    scores = options["sentence_scores"]
    with ExitStack() as stack:
        stack.enter_context(ranks.writing())
        folder = options["parts"]
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alignkit-"))
        else:
            os.makedirs(folder, exist_ok=True)
        links = Path(folder, f"part-{ranks.rank:05}-of-{ranks.world_size:05}")
        numbers = None if scores is None else stack.enter_context(tempfile.NamedTemporaryFile())
        _write_part(shared, links, options["output_format"], None if numbers is None else numbers.name)
        if options["parts"] is None:
            _join(ranks, links, options["output"])
        else:
            _write_manifest(ranks, shared, links, options["output_format"])
        if numbers is not None:
            _join(ranks, Path(numbers.name), scores)


def _write_part(shared: SharedText, links: Path, output_format: str, scores: str | None) -> None:
    """Write the lines of this rank."""
    from alignkit.workflow.writing import AlignmentWriter

    with AlignmentWriter(links, output_format, scores) as writer:
        writer.pairs = shared.first
        for alignment in shared.aligned.alignments(**writer.wanted):
            writer.write(alignment)


def _join(ranks: ArrayGroup, part: Path, output: str | None) -> None:
    """Write the files of all ranks to one, at rank 0."""
    chunks: Iterator[bytes] = ranks.joined_files(part)
    if ranks.rank > 0:
        for _ in chunks:
            pass
    elif output is None or output == "-":
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    else:
        from alignkit.storage import atomic_write

        with atomic_write(output) as stream:
            for chunk in chunks:
                stream.write(chunk)


def _write_manifest(ranks: ArrayGroup, shared: SharedText, links: Path, output_format: str) -> None:
    own = {"file": links.name, "first_pair": shared.first + 1, "pairs": len(shared.aligned)}
    parts = [json.loads(text) for text in ranks.texts(json.dumps(own))]
    if ranks.rank == 0:
        manifest = {"pairs": shared.pairs, "format": output_format, "parts": parts}
        from alignkit.storage import atomic_write

        with atomic_write(links.parent / MANIFEST) as stream:
            stream.write((json.dumps(manifest, indent=1) + "\n").encode())


def _note_blanks(ranks: ArrayGroup, shared: SharedText, quiet: bool) -> None:
    from alignkit.text.reading import blank_pairs

    note_blanks(int(ranks.sizes(blank_pairs(shared.aligned.bitext)).sum()), quiet)


def count_and_write_shared(options: Mapping[str, Any], weighting: Any) -> None:
    """Count word pairs together with the other ranks, and write the table; options of `alignkit cooc`."""
    from alignkit.classical.cooccurrence import save_table
    from alignkit.workflow.sharing import cooccurrence_shared, joined_ranks

    source, target = choose_text(options["source"], options["target"], options["sample"])
    reading = {name: options[name] for name in ("encoding_errors", "lowercase")}
    with joined_ranks() as ranks:
        table, bitext, pairs = cooccurrence_shared(ranks, source, target, weighting, options["threads"], **reading)
        if ranks.rank == 0:
            with ranks.writing():
                vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
                save_table(options["output"], table, *vocabularies, weighting)
            note(f"{len(table.values)} word pairs of {pairs} sentence pairs", options["quiet"])
