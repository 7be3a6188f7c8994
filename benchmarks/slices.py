"""Quality on texts of 1 to 200 sentence pairs, each aligned alone: ours, also with embeddings, and eflomal.

    ALIGNKIT_DATA=DATA python benchmarks/slices.py -o benchmarks/results/slices --peer-python PYTHON

Slices of the dev parts of DATA/aer (as in benchmarks/quality.py) are drawn with a fixed seed; no other text is
aligned with them. A row has the AER over all slices of one size. The embeddings are those of the extra;
the processor time of their encoder is that for the whole dev part. With --longer, the dev part is aligned with
training text, so much that there are 200 to 1,600 pairs; with --calibration, the errors of calibration of printed
links are measured, with trust in small texts as it is and without; and the rest of OUT.json stays as it is.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np
from inputs import gold_sets, run_benchmark
from quality import environment, markdown
from quality_systems import eflomal, measured

from alignkit.classical.hmm import joint
from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.links.symmetrization import symmetrize
from alignkit.metrics.aer import evaluate, link_keys
from alignkit.pipeline.align import align
from alignkit.pipeline.settings import QUALITIES
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines
from alignkit.uses.diagnose.diagnosis import calibration_error

#: size of a slice -> how many there are at most
SIZES = {1: 40, 2: 30, 5: 20, 10: 14, 20: 10, 30: 8, 50: 6, 100: 4, 200: 2}
LONGER = (200, 400, 800, 1600)
SEED = 1
FILES = ("src", "tgt")

Align = Callable[[Bitext], Links]


def slices(pairs: int) -> dict[int, list[np.ndarray]]:
    """{size: the pairs of each slice}; slices of one size have no pair in common."""
    draw = np.random.default_rng(SEED)
    found = {}
    for size, most in SIZES.items():
        order = draw.permutation(pairs)
        if size <= pairs:
            found[size] = [order[k * size : (k + 1) * size] for k in range(min(most, pairs // size))]
    return found


def aer(parts: list[np.ndarray], bitext: Bitext, gold: GoldLinks, system: Align) -> float:
    """AER of a system over all slices of one size."""
    found = [system(Bitext(bitext.source.take(part), bitext.target.take(part))) for part in parts]
    return evaluate(gold.take(np.concatenate(parts)), Links.concatenated(found)).aer


def by_eflomal(python: str) -> Align:
    """eflomal with its defaults, its directions joined by grow-diag-final-and."""
    system = eflomal(python)

    def run(bitext: Bitext) -> Links:
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            for side, corpus in (("src", bitext.source), ("tgt", bitext.target)):
                lines = (" ".join(corpus.words(m)) + "\n" for m in range(len(corpus)))
                (work / side).write_text("".join(lines), encoding="utf-8", newline="\n")
            measured(system.command(str(work / "src"), str(work / "tgt"), work, 1), 1)
            both = [parse_links(str(work / x), read_lines(str(work / x))).possible for x in ("forward", "reverse")]
            return symmetrize(*both, "grow-diag-final-and")

    return run


def longer_texts(encoder: ContextualEmbeddings) -> list[dict[str, object]]:
    """AER of the dev part of each set, with training text behind it, and processor seconds, by embeddings."""
    rows = []
    for folder, size in product(gold_sets("dev", None), LONGER):
        sides = [[*read_lines(folder / f"dev.{x}"), *read_lines(folder / f"train.{x}")][:size] for x in FILES]
        gold = parse_links("dev.gold", read_lines(folder / "dev.gold")[:size])
        row: dict[str, object] = {"set": folder.name, "pairs": size}
        for name, embeddings in (("without_e5", "none"), ("with_e5", encoder)):
            start = time.process_time()
            found = align(*sides, embeddings=embeddings, threads=1).links.block(0, len(gold))
            row |= {
                name: evaluate(gold, found).aer,
                f"seconds {name.replace('_', ' ')}": round(time.process_time() - start, 1),
            }
        click.echo(json.dumps(row), err=True)
        rows.append(row)
    return rows


def calibration_errors() -> list[dict[str, object]]:
    """Expected calibration errors of the links of each size's slices; possible links count as right."""
    rows = []
    for folder, is_trusted in product(gold_sets("dev", None), (True, False)):
        bitext = read_bitext(str(folder / "dev.src"), str(folder / "dev.tgt"))
        gold = parse_links(str(folder / "dev.gold"), read_lines(str(folder / "dev.gold")))
        row: dict[str, object] = {"set": folder.name, "links are": "less trusted" if is_trusted else "trusted"}
        for size, parts in slices(len(bitext)).items():
            with patch.object(joint, "trust_in", joint.trust_in if is_trusted else lambda _: 1.0):
                fits = [joint.fit_joint(bitext.take(part), threads=1) for part in parts]
            found = [each.fitted_links_and_probabilities for each in fits]
            keys, known = (
                link_keys(Links.concatenated([links for links, _ in found])),
                gold.take(np.concatenate(parts)),
            )
            right = np.isin(keys, link_keys(known.possible)) | np.isin(keys, link_keys(known.sure))
            row[f"{size}_pairs"] = calibration_error(np.concatenate([each for _, each in found]), right)
        rows.append(row)
    return rows


@click.command()
@click.option("--calibration", is_flag=True, help="Only the errors of calibration.")
@click.option("--longer", is_flag=True, help="Only the dev parts with training text.")
@click.option("--peer-python", help="The Python that has eflomal.  [default: eflomal is left out]")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(calibration: bool, longer: bool, peer_python: str | None, output: str) -> None:
    """Quality on texts of 1 to 200 sentence pairs, or with --longer to 1,600."""
    place = Path(f"{output}.json")
    if calibration:
        result = {**json.loads(place.read_text()), "calibration": calibration_errors()}
    elif longer:
        result = {**json.loads(place.read_text()), "longer": longer_texts(ContextualEmbeddings())}
    else:
        result = {**(json.loads(place.read_text()) if place.exists() else {}), **short_texts(peer_python)}
    place.write_text(json.dumps(result, indent=1) + "\n")
    rows = sorted(result["rows"], key=lambda row: -len(row))  # the first has the columns
    title = "# AER on slices of dev sets, each aligned alone, in percent\n\n"
    parts = [
        markdown("Slices", rows),
        markdown("Dev parts with training text", result.get("longer", [])),
        markdown("Calibration errors of normal", sorted(result.get("calibration", []), key=lambda row: -len(row))),
        markdown("Encoding, on one thread", [{"set": name} | row for name, row in result["encoding"].items()]),
    ]
    Path(f"{output}.md").write_text(f"{title}{''.join(parts)}".rstrip() + "\n")


def short_texts(peer_python: str | None) -> dict[str, object]:
    """AER on slices of the dev parts."""
    systems: dict[str, Align] = {
        f"alignkit align --quality {name}": lambda text, name=name: (
            align(text, quality=name, embeddings="none", threads=1).links
        )
        for name in QUALITIES
    }
    encoder = ContextualEmbeddings()
    systems["alignkit align --embeddings e5"] = lambda text: align(text, embeddings=encoder, threads=1).links
    if peer_python is not None:
        systems["eflomal, grow-diag-final-and"] = by_eflomal(peer_python)
    rows, encoding = [], {}
    for folder in gold_sets("dev", None):
        bitext = read_bitext(str(folder / "dev.src"), str(folder / "dev.tgt"))
        gold = parse_links(str(folder / "dev.gold"), read_lines(str(folder / "dev.gold")))
        parts = slices(len(bitext))
        start = time.process_time()
        encoder.levels(bitext, 1)
        encoding[folder.name] = {"pairs": len(bitext), "seconds": round(time.process_time() - start, 1)}
        for name, system in systems.items():
            row = {"set": folder.name, "aligner": name}
            row |= {f"{size}_pairs": aer(found, bitext, gold, system) for size, found in parts.items()}
            click.echo(json.dumps(row), err=True)
            rows.append(row)
    facts = environment(peer_python) if peer_python is not None else {}
    return {"environment": facts, "encoding": encoding, "rows": rows}


if __name__ == "__main__":
    run_benchmark(main)
