"""Train the projection of e5's states, by which words are compared with those of another language.

    python benchmarks/e5_projection.py BIBLES -o alignkit/embeddings/e5.npy

BIBLES is a checkout of https://github.com/scrollmapper/bible_databases, of which New Testaments in the public
domain are used. `alignkit align` links some verses of each pair of translations with e5 as it is; then the
projection, at first the identity, is trained to make linked words more alike than others of their verses (as Dou
and Neubig, 2021, train a whole encoder). No text of another benchmark is read. Takes a core ten minutes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
from inputs import run_benchmark
from verses import Place, translation

from alignkit.embeddings.contextual import ContextualEmbeddings, centres_and_spread
from alignkit.embeddings.levels import TEMPERATURE, centred
from alignkit.links.links import Links
from alignkit.pipeline.align import align
from alignkit.text.bitext import Bitext

#: English translations, and those that are aligned with them; then pairs without English.
WITH_ENGLISH = {
    "NHEB": "Alb CroSaric CzeBKR DaOT1871NT1907 DutSVV Esperanto FinPR GerMenge GreVamvas HunKar JapKougo KorRV"
    " LvGluck8 NorSMB PolGdanska RusSynodal SrKDEkavski Swe1917 TagAngBiblia Viet VulgClementine",
    "ASV": "ChiUn FreCrampon FreOltramare1874 GerElb1905 SloChraska SpaRV UkrOgienko",
}
OTHERS = ("FinPR", "Swe1917"), ("FreCrampon", "Viet"), ("GerMenge", "RusSynodal"), ("SpaRV", "CzeBKR")
#: Written without spaces: each character is a word.
CHARACTERS = re.compile("([\u3040-\u30ff\u4e00-\u9fff])")
BOOKS, VERSES, LONGEST = 27, 600, 60
EPOCHS, BATCH, RATE, DECAY, SEED = 1, 16, 5e-4, 3e-4, 0


class Example(NamedTuple):
    """A pair of verses: standardized states, float32 (L, H) and (T, H), and links, int64 (K,) each."""

    source: torch.Tensor
    target: torch.Tensor
    linked_source: torch.Tensor
    linked_target: torch.Tensor


def verses_of(bibles: Path, name: str) -> dict[Place, list[str]]:
    """The words of each verse of the New Testament."""
    verses = translation(bibles, name)
    books = [*dict.fromkeys(book for book, _, _ in verses)][-BOOKS:]
    return {place: CHARACTERS.sub(r" \1 ", text).split() for place, text in verses.items() if place[0] in books}


def examples(source: dict[Place, list[str]], target: dict[Place, list[str]], seed: int) -> list[Example]:
    """Some verses of two translations, linked by `align` with e5 as it is."""
    both = [place for place in source if all(0 < len(side.get(place, [])) <= LONGEST for side in (source, target))]
    chosen = np.sort(np.random.default_rng(seed).permutation(len(both))[:VERSES])
    bitext = Bitext.from_sentences(*([side[both[i]] for i in chosen] for side in (source, target)))
    embeddings = ContextualEmbeddings()
    embeddings.encoder.projection = None
    sides = [
        embeddings.vectors(side, embeddings.word_pieces(side.vocabulary), symbols, threads=1)
        for side, symbols in zip((bitext.source, bitext.target), embeddings.encoder.symbols, strict=True)
    ]
    centres, spread = centres_and_spread(*sides)
    states = [torch.from_numpy(centred(side, centre, spread)) for side, centre in zip(sides, centres, strict=True)]
    links: Links = align(bitext, embeddings=embeddings, threads=1).links
    pairs = torch.from_numpy(links.pairs.astype(np.int64))
    found = []
    for m in range(len(bitext)):
        x, y = (
            vectors[side.offsets[m] : side.offsets[m + 1]]
            for vectors, side in zip(states, (bitext.source, bitext.target), strict=True)
        )
        found.append(Example(x, y, *pairs[links.offsets[m] : links.offsets[m + 1]].T))
    return found


def unlikeness(projection: torch.Tensor, example: Example) -> torch.Tensor:
    """What the links lack in likeness (:func:`alignkit.embeddings.levels.likeness_levels`): the sum of -log."""
    x, y = (torch.nn.functional.normalize(side @ projection, dim=1) for side in example[:2])
    cosines = y @ x.T / TEMPERATURE
    likeness = (cosines.log_softmax(0) + cosines.log_softmax(1)) / 2
    return -likeness[example.linked_target, example.linked_source].sum()


def train(data: list[Example]) -> torch.Tensor:
    """The projection, float32 (H, H)."""
    start = torch.eye(data[0].source.shape[1])
    projection = start.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([projection], lr=RATE)
    rng = np.random.default_rng(SEED)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in np.array_split(rng.permutation(len(data)), len(data) // BATCH):
            count = sum(len(data[i].linked_source) for i in batch)
            loss = torch.stack([unlikeness(projection, data[i]) for i in batch]).sum() / max(count, 1)
            optimizer.zero_grad()
            (loss + DECAY * (projection - start).square().sum()).backward()
            optimizer.step()
            total += loss.item() * len(batch)
        click.echo(f"epoch {epoch + 1}: {total / len(data):.3f} nats a link", err=True)
    return projection.detach()


@click.command()
@click.argument("bibles", type=Path)
@click.option("-o", "--output", required=True, type=Path)
def main(bibles: Path, output: Path) -> None:
    """Train the projection of e5's states."""
    torch.set_num_threads(1)
    pairs = [(english, other) for english, others in WITH_ENGLISH.items() for other in others.split()]
    data = []
    for seed, names in enumerate([*pairs, *OTHERS]):
        found = examples(*(verses_of(bibles, name) for name in names), seed)
        click.echo(f"{' '.join(names)}: {sum(len(each.linked_source) for each in found)} links", err=True)
        data += found
    np.save(output, train(data).numpy().astype(np.float16))


if __name__ == "__main__":
    run_benchmark(main)
