"""``alignkit fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from alignkit.errors import InputError, find_known
from alignkit_cli import shared
from alignkit_cli.parameter_types import OutputFolder

if TYPE_CHECKING:
    from alignkit.support.datasets import DataSet


@shared.command("fetch", "alignkit fetch multi30k -o data")
@shared.argument("name", "[NAME]")
@click.option("-o", "--output", "folder", type=OutputFolder())
@shared.quiet_option
def fetch_command(name: str | None, folder: str | None, quiet: bool) -> None:
    """Download a public data set, and show its addresses, sizes, checksums and licence.

    Without NAME, prints the names. `sample` copies the German-English sample that comes with alignkit and needs no
    network: corpus.de and corpus.en, 940 sentence pairs; test.de and test.en, 100 others with gold links, tags and
    subwords; sample.de and sample.en, all of these, the 100 first. Other data sets come as their publishers have
    them, at a fixed Git commit; docs/data-sets.md describes how the benchmarks convert them. Files that exist
    already are checked and kept.

    Args:
        NAME: The data set; without it, all names are printed.
        --output: The folder for the files. [default: NAME]
    """
    from alignkit.support.datasets import DATA_SETS, SUMS, fetch

    if name is None:
        if folder is not None:
            raise click.UsageError("Give the NAME of a data set; `alignkit fetch` alone prints them.")
        width = max(map(len, DATA_SETS))
        titles = {"sample": "the German-English sentences that come with alignkit, with gold links for 100 pairs"}
        titles |= {each.name: each.title for each in DATA_SETS.values()}
        shared.write_output(
            "".join(f"{each:<{width}}  {title}\n" for each, title in titles.items()).encode(), None
        )
        return
    if name == "sample":
        shared.note(f"{copy_sample(folder or name)} files in {folder or name}", quiet)
        return
    data, place = find_known(name, DATA_SETS, "data set"), folder if folder is not None else name
    shared.note(describe(data), quiet)
    with shared.ProgressBar(name, quiet) as bar:
        paths = fetch(data, place, bar)
    shared.note(f"{place}: {len(paths)} files, their SHA-256 in {SUMS}", quiet)


def copy_sample(folder: str) -> int:
    """Copy the files of the sample, the training text under the name that the guides use; return their number.

    Raises:
        InputError: another file has the name of one of them; nothing is written then.
    """
    import alignkit_data
    from alignkit.support.files import atomic_write

    Path(folder).mkdir(parents=True, exist_ok=True)
    names = {Path(folder, name.replace("train.", "corpus.")): name for name in alignkit_data.FILES}
    contents = {path: alignkit_data.path(name).read_bytes() for path, name in names.items()}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise InputError(path, "is there already and is not the sample's", remedy="give another folder")
    for path, content in contents.items():
        with atomic_write(path) as file:
            file.write(content)
    return len(contents)


def describe(data: DataSet) -> str:
    """What is downloaded, and on which terms."""
    lines = [f"{data.name}: {data.title}", f"licence: {data.licence}"]
    if data.remark:
        lines.append(f"note: {data.remark}")
    for each in data.files:
        size = f"{each.size:,} bytes" if each.size is not None else "size unknown"
        digest = (
            f"SHA-256 {each.sha256}" if each.sha256 is not None else "SHA-256 unknown, recorded at the download"
        )
        lines.append(f"{each.url}\n    {size}, {digest}")
    return "\n".join(lines)
