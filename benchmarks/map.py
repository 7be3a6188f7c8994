"""A saved model mapped over a text by engines that run a function of batches, beside the plain command.

    python benchmarks/map.py SRC TGT --model MODEL -o benchmarks/results/map [--engine dask ...] [--batch 10000]

An engine gets the loaded aligner and runs its `align_batch` in processes of its own, as in
docs/guides/large-corpus.md; links have to be those of `alignkit align --model MODEL SRC TGT`, line by line. Times
are whole maps, with the start of the engine's processes and the pickling of the model, one run each. Engines that
are not installed are left out. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from inputs import fail, machine, need_files, run_benchmark

import alignkit
from alignkit.aligner import load_aligner

Columns = dict[str, list[str]]


def link(batch: Any, aligner: alignkit.Aligner) -> dict[str, list[str]]:
    """The columns of a batch and its links."""
    source, target = (list(batch[side]) for side in ("source", "target"))
    return {"source": source, "target": target, "links": aligner.align_batch(source, target)}


def link_frame(frame: Any, aligner: alignkit.Aligner) -> Any:
    """A data frame with its links."""
    return frame.assign(links=aligner.align_batch(frame["source"].tolist(), frame["target"].tolist()))


def by_datasets(text: Columns, aligner: alignkit.Aligner, batch: int, processes: int) -> list[str]:
    """The links by `datasets.Dataset.map`."""
    from datasets import Dataset, disable_caching, disable_progress_bars

    disable_caching()
    disable_progress_bars()
    function = partial(link, aligner=aligner)
    found = Dataset.from_dict(text).map(function, batched=True, batch_size=batch, num_proc=processes)
    return list(found["links"])


def by_dask(text: Columns, aligner: alignkit.Aligner, batch: int, processes: int) -> list[str]:
    """The links by `dask.dataframe.DataFrame.map_partitions`."""
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(text), chunksize=batch)
    meta = {"source": "string", "target": "string", "links": "string"}
    found = frame.map_partitions(link_frame, aligner, meta=meta)
    return found.compute(scheduler="processes", num_workers=processes)["links"].tolist()


def by_ray(text: Columns, aligner: alignkit.Aligner, batch: int, processes: int) -> list[str]:
    """The links by `ray.data.Dataset.map_batches`."""
    import pandas as pd
    import ray

    ray.init(num_cpus=processes, include_dashboard=False, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        blocks = -(-len(text["source"]) // batch)
        data = ray.data.from_pandas(pd.DataFrame(text)).repartition(blocks)
        found = data.map_batches(
            link_frame, fn_kwargs={"aligner": aligner}, batch_size=None, batch_format="pandas"
        )
        return found.to_pandas()["links"].tolist()
    finally:
        ray.shutdown()


ENGINES = {"datasets": by_datasets, "dask": by_dask, "ray": by_ray}


def read(path: str) -> list[str]:
    """The lines of a file."""
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def plain(source: str, target: str, model: str, threads: int) -> tuple[list[str], float]:
    """The links of the plain command, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/links"
        call = ["align", "-q", "--model", model, "--threads", str(threads), source, target, "-o", output]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "alignkit", *call], check=True)
        return read(output), time.perf_counter() - start


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    lines = ["# A model mapped over a text", "", f"{result['machine']}. {result['pairs']:,} sentence pairs."]
    how = "one run each, on a machine that is not quiet"
    lines += [f"Batches of {result['batch']:,} pairs, {result['processes']} processes; {how}.", ""]
    lines += ["| | seconds | links that differ from the plain command's |", "|---|---|---|"]
    lines += [f"| {row['name']} | {row['seconds']:.1f} | {row['different']} |" for row in result["rows"]]
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--model", required=True, help="As `alignkit align --save-model` writes it.")
@click.option("--engine", "engines", multiple=True, type=click.Choice(list(ENGINES)), default=tuple(ENGINES))
@click.option("--batch", type=click.IntRange(min=1), default=10_000, show_default=True, help="Pairs of a batch.")
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(
    source: str, target: str, model: str, engines: tuple[str, ...], batch: int, processes: int, output: str
) -> None:
    """Links and time of a map, by engine."""
    need_files(source, target)
    need_files(model, remedy="write it by alignkit align SRC TGT --save-model MODEL")
    installed = [name for name in engines if find_spec(name) is not None]
    if not installed:
        fail(f"none of {', '.join(engines)} is installed; pip install datasets")
    expected, seconds = plain(source, target, model, processes)
    rows = [{"name": f"alignkit align --model, {processes} threads", "seconds": seconds, "different": 0}]
    text = {"source": read(source), "target": read(target)}
    aligner = load_aligner(model, threads=1)
    for name in installed:
        start = time.perf_counter()
        found = ENGINES[name](text, aligner, batch, processes)
        seconds = time.perf_counter() - start
        different = sum(a != b for a, b in zip(found, expected, strict=True))
        rows.append({"name": f"{name} {version(name)}", "seconds": seconds, "different": different})
        click.echo(json.dumps(rows[-1]), err=True)
    result = {"machine": machine(), "pairs": len(expected), "batch": batch, "processes": processes, "rows": rows}
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(result))
    if any(row["different"] for row in rows):
        fail("links differ from the plain command's")


if __name__ == "__main__":
    run_benchmark(main)
