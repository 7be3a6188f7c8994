"""Alignment heads through the training of small translation models: a decoder-only one and an encoder-decoder.

    python benchmarks/language_model.py train MULTI30K RUN --kind llama --until 2000
    python benchmarks/language_model.py train MULTI30K TWIN --kind marian --until 1000
    python benchmarks/language_model.py measure MULTI30K RUN TWIN -o benchmarks/results/language_model

Both learn to translate Multi30k's tokenised German into English: a Llama of transformers (5 layers of 8 heads,
"<s> source = target </s>", loss on the target) and a Marian (encoder and decoder of the same sizes, loss on the
target). Checkpoints stand at log-spaced steps. Training goes on where it was stopped; the last checkpoint that
both reached in the time that there was is the end.

What is measured, and what was expected; this text was written before the first training run:

*Hits* of a head: the share of the target words (of the first 500 validation pairs) with at least one link of
`alignkit align`, fitted on the training text, whose source word with the most attention is one that they are
linked to. Rows are taken as they are (the step that predicts the word) or shifted (the word's own); of each head
the better of the two at the last checkpoint. *Alpha* is attention; *beta* of a head is what its OV circuit says
of words, whatever it attends to: softmax over the vocabulary of unembedding(final norm(W_O W_V h_l)) at y_t,
where h_l is the normed input of the head's layer at source token l (of the encoder-decoder, the encoder's
output, and no final norm, for it has none). *Position baselines*: the diagonal, the first and the last word, and
the word at the same place, one or two before or after; the best of them counts. *Alignment head*: its hits
exceed that baseline by a paired z test over sentence pairs, two-sided at 5 % divided by the number of heads
times two (shifted or not).

1. Beta leads alpha. Of each head that is an alignment head at the last checkpoint, the step at which hits first
   reach half of their final excess over a random source word, interpolated in the logarithm of the step, is
   smaller for beta than for alpha. Supported (or contradicted) if more (fewer) heads do so than a sign test at 5
   % allows; heads whose beta ends no better than a random word are counted apart, and left out of the test.
2. Alignment heads appear at a certain time: none up to step 200, and at least half of the final number are there
   at one checkpoint of which at most a quarter were there at half as many steps.
3. Ablating the best ten heads (chosen by hits on validation, their outputs set to zero) costs more BLEU
   (test2016, greedy) than ablating any of ten random sets of ten. Reported beside it: random sets with as many
   heads of each layer; and the rank correlation over heads of hits and the loss that ablating the head alone
   costs.
4. The best head of the decoder-only model agrees less with IBM Model 1 and with `align` than that of the
   encoder-decoder at the end, and appears later.

Two things were changed after a first look at the decoder-only model's heads: the end is each model's own last
checkpoint; and as positions alone explain most links of this text (captions), everything is also measured *off
the diagonal*: for the target words only that the diagonal's word is not linked to, against the best position
rule there. After the first results, the heads that align off the diagonal were ablated too, beside other heads of
their layers.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import sacrebleu
import torch
from inputs import machine, need_files, run_benchmark
from scipy.stats import binomtest, norm, spearmanr
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

import alignkit
from alignkit.lab.heads.hugging_face import cross_attention, load_pretrained, translation_attention
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.links.links import Links
from alignkit.text.reading import read_lines

STEPS = (0, 50, 100, 200, 350, 500, 700, 1000, 1400, 2000, 2800, 4000)  #: of checkpoints, and the last step
PIECES, WIDTH, INNER, LAYERS, HEADS = 6000, 128, 384, 5, 8
BATCH, WARMUP = 64, 400
RATE = {"llama": 2e-3, "marian": 1e-3}  #: the highest; it falls with the square root of the step
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
PAD, BOS, EOS = 0, 1, 2
TEMPLATE = "{source} = {target}"
ALIGN, OFF, IBM1 = "align", "off the diagonal", "IBM 1"  #: whose links
VALID, TESTED, ABLATED, SETS = 500, 500, 10, 10
TITLES = {"llama": "Decoder-only (Llama)", "marian": "Encoder-decoder (Marian)"}


def read_pairs(data: Path, part: str) -> tuple[list[str], list[str]]:
    need_files(data / f"{part}.de", data / f"{part}.en")
    german, english = (list(read_lines(data / f"{part}.{side}")) for side in ("de", "en"))
    return german, english


def learn_tokenizer(lines: list[str], kind: str) -> PreTrainedTokenizerFast:
    """Subwords of both languages together."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=PIECES, special_tokens=SPECIAL, show_progress=False)
    )
    ends = "<s> $A" if kind == "llama" else "$A </s>"
    made.post_processor = processors.TemplateProcessing(ends, special_tokens=[("<s>", BOS), ("</s>", EOS)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def new_model(kind: str) -> Any:
    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "vocab_size": PIECES}
    if kind == "llama":
        return LlamaForCausalLM(
            LlamaConfig(
                **ids,
                hidden_size=WIDTH,
                intermediate_size=INNER,
                num_hidden_layers=LAYERS,
                num_attention_heads=HEADS,
                max_position_embeddings=256,
                tie_word_embeddings=True,
            )
        )
    sides = ("encoder", "decoder")
    return MarianMTModel(
        MarianConfig(
            **ids,
            **{f"{side}_layers": LAYERS for side in sides},
            **{f"{side}_attention_heads": HEADS for side in sides},
            **{f"{side}_ffn_dim": WIDTH * 3 for side in sides},
            d_model=WIDTH,
            decoder_vocab_size=PIECES,
            max_position_embeddings=256,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            scale_embedding=True,
            init_std=WIDTH**-0.5,
            activation_function="relu",
        )
    )


def batches(sizes: np.ndarray, epoch: int) -> list[np.ndarray]:
    """The batches of an epoch: pairs of about equal length together, in random order."""
    rng = np.random.default_rng(epoch)
    order = np.argsort(sizes + rng.uniform(0, 3, len(sizes)), kind="stable")
    found = np.array_split(order, math.ceil(len(order) / BATCH))
    return [found[k] for k in rng.permutation(len(found))]


def padded(rows: list[list[int]], filler: int = PAD) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def target_loss(model: Any, pairs: list[tuple[list[int], list[int]]]) -> torch.Tensor:
    """Mean cross-entropy of the targets' tokens and </s>, of (source ids, target ids) as the model reads them."""
    if not model.config.is_encoder_decoder:
        ids = padded([[*source, *target] for source, target in pairs])
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state  # causal: padding is not seen
        k, t = (
            np.concatenate(each)
            for each in zip(
                *(
                    (np.full(len(target), k), len(source) + np.arange(len(target)))
                    for k, (source, target) in enumerate(pairs)
                ),
                strict=True,
            )
        )
        return torch.nn.functional.cross_entropy(model.lm_head(hidden[k, t - 1]), ids[k, t])
    source, labels = padded([source for source, _ in pairs]), padded([target for _, target in pairs], -100)
    return model(input_ids=source, attention_mask=(source != PAD).long(), labels=labels).loss


def encode(tokenizer: Any, kind: str, german: list[str], english: list[str]) -> list[tuple[list[int], list[int]]]:
    """(source, target) ids of each pair: of the decoder-only model all up to " =", and what follows, with </s>."""
    if kind == "marian":
        return list(zip(tokenizer(german)["input_ids"], tokenizer(english)["input_ids"], strict=True))
    source = tokenizer([TEMPLATE.split("{target}")[0].format(source=line).strip() for line in german])["input_ids"]
    target = tokenizer(english, add_special_tokens=False)["input_ids"]
    return [(x, [*y, EOS]) for x, y in zip(source, target, strict=True)]


@click.group()
def main() -> None:
    """Train and measure."""
    torch.set_num_threads(1)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice(["llama", "marian"]), required=True)
@click.option("--until", type=int, help="Stop after this step, to go on later.")
def train(data: Path, run: Path, kind: str, until: int | None) -> None:
    """Train one model; checkpoints are folders of RUN."""
    german, english = read_pairs(data, "train")
    tokenizer = learn_tokenizer([*german, *english], kind)
    pairs = encode(tokenizer, kind, german, english)
    held = encode(tokenizer, kind, *(side[:500] for side in read_pairs(data, "val")))
    sizes = np.array([len(x) + len(y) for x, y in pairs])
    torch.manual_seed(1)
    model = new_model(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE[kind], betas=(0.9, 0.98), weight_decay=0.01)
    per_epoch, step, spent = len(batches(sizes, 0)), 0, 0.0
    state = run / "state.pt"
    if state.exists():
        known = torch.load(state, weights_only=True)
        model.load_state_dict(known["model"])
        optimizer.load_state_dict(known["optimizer"])
        torch.set_rng_state(known["rng"])
        step, spent = known["step"], known["seconds"]
    start = time.process_time() - spent
    while True:
        if step in STEPS and not (run / f"step-{step:05}").exists():
            model.eval()
            with torch.inference_mode():
                loss = float(np.mean([float(target_loss(model, held[k : k + 50])) for k in range(0, 500, 50)]))
            seconds = time.process_time() - start
            print(f"step {step}: validation loss {loss:.3f} after {seconds:.0f} s of processor time", flush=True)
            model.save_pretrained(run / f"step-{step:05}")
            tokenizer.save_pretrained(run / f"step-{step:05}")
            facts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save({**facts, "rng": torch.get_rng_state(), "seconds": seconds}, state.with_suffix(".new"))
            state.with_suffix(".new").replace(state)
        if step >= min(until or STEPS[-1], STEPS[-1]):
            return
        model.train()
        rate = RATE[kind] * min((step + 1) / WARMUP, math.sqrt(WARMUP / (step + 1)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        chosen = batches(sizes, step // per_epoch)[step % per_epoch]
        loss = target_loss(model, [pairs[m] for m in chosen])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1


def load(folder: Path) -> tuple[Any, Any]:
    """A checkpoint's model, to be evaluated, and its tokenizer."""
    model, tokenizer = load_pretrained(folder)
    return model.eval(), tokenizer


def is_pair(model: Any) -> bool:
    return bool(model.config.is_encoder_decoder)


def quantity_of_heads(
    model: Any, tokenizer: Any, german: list[str], english: list[str], quantity: str = "weights"
) -> AttentionHeads:
    """Alpha of every head (its weights) or beta (``ov``), of each target token to the source."""
    given: dict[str, Any] = {"device": "cpu", "batch_size": 50, "quantity": quantity}
    if is_pair(model):
        return cross_attention(model, tokenizer, german, english, **given)
    return translation_attention(model, tokenizer, german, english, template=TEMPLATE, **given)


def ends(model: Any) -> list[torch.nn.Module]:
    """The matrix that ends each layer's attention, whose input is the heads' outputs."""
    if is_pair(model):
        return [layer.encoder_attn.out_proj for layer in model.get_decoder().layers]
    return [layer.self_attn.o_proj for layer in model.model.layers]


def hit_counts(heads: AttentionHeads, links: Links) -> np.ndarray:
    """int (H, M): the linked target words of a pair whose source word with most attention is linked to them."""
    merged, counts = heads.on_words, np.zeros((len(heads.heads), len(heads)), np.int64)
    for m in range(len(heads)):
        linked = np.zeros(merged.shapes[m], bool)
        linked[links[m][:, 1], links[m][:, 0]] = True
        tops = merged.pair(m).argmax(axis=2)  # (H, T)
        counts[:, m] = linked[np.arange(linked.shape[0]), tops].sum(axis=1)
    return counts


def position_counts(shapes: np.ndarray, links: Links) -> dict[str, np.ndarray]:
    """The same, of what positions alone give."""
    rules = {"diagonal": lambda t, T, L: int((t + 0.5) * L / T), "first word": lambda t, T, L: 0}
    rules["last word"] = lambda t, T, L: L - 1
    for k in range(-2, 3):
        rules[f"same place {k:+d}"] = lambda t, T, L, k=k: min(max(t + k, 0), L - 1)
    found = {name: np.zeros(len(shapes), np.int64) for name in rules}
    for m, (T, L) in enumerate(shapes.tolist()):
        known = set(map(tuple, links[m].tolist()))
        for name, rule in rules.items():
            found[name][m] = sum((rule(t, T, L), t) in known for t in range(T))
    return found


def off_diagonal(links: Links, shapes: np.ndarray) -> Links:
    """The links of the target words that are not linked to the word on the diagonal."""
    found = []
    for m, (T, L) in enumerate(shapes.tolist()):
        known = [(s, t) for s, t in links[m].tolist()]
        on = {t for s, t in known if s == int((t + 0.5) * L / T)}
        found.append([(s, t) for s, t in known if t not in on])
    return Links.from_lists(found)


def linked_words(links: Links) -> np.ndarray:
    return np.array([len(set(links[m][:, 1].tolist())) for m in range(len(links))])


def random_share(shapes: np.ndarray, links: Links) -> float:
    """The hits of a source word drawn at random."""
    hits = sum(len(links[m]) / L for m, (_, L) in enumerate(shapes.tolist()))
    return float(hits / linked_words(links).sum())


def z_score(hits: np.ndarray, others: np.ndarray, words: np.ndarray) -> float:
    """How many standard errors, over pairs, one share of hits is above another."""
    difference = hits - others
    share = difference.sum() / words.sum()
    return float(share * words.sum() / max(np.sqrt(((difference - share * words) ** 2).sum()), 1e-9))


def translate(model: Any, tokenizer: Any, lines: list[str]) -> list[str]:
    """Greedy translations, as tokenised as the text."""
    sources = [x for x, _ in encode(tokenizer, "marian" if is_pair(model) else "llama", lines, lines)]
    order, found = sorted(range(len(lines)), key=lambda m: len(sources[m])), [""] * len(lines)
    for low in range(0, len(order), 100):
        batch = order[low : low + 100]
        width = max(len(sources[m]) for m in batch)
        ids = torch.tensor([[PAD] * (width - len(sources[m])) + sources[m] for m in batch])
        given = {"input_ids": ids, "attention_mask": (ids != PAD).long(), "max_new_tokens": 40}
        with torch.inference_mode():
            out = model.generate(**given, do_sample=False, num_beams=1, pad_token_id=PAD, eos_token_id=EOS)
        start = 1 if is_pair(model) else width
        for m, row in zip(batch, out[:, start:].tolist(), strict=True):
            tokens = tokenizer.convert_ids_to_tokens(row[: row.index(EOS)] if EOS in row else row)
            found[m] = "".join(tokens).replace("<pad>", "").replace("\u2581", " ").strip()
    return found


@contextmanager
def without_heads(model: Any, chosen: Sequence[tuple[int, int]]) -> Iterator[None]:
    """The outputs of these heads (layer, head) are zero in this block."""
    with ExitStack() as hooks:
        for layer, end in enumerate(ends(model)):
            silent = [head for each, head in chosen if each == layer]

            def hide(module: Any, given: Any, silent: list[int] = silent) -> Any:
                parts = given[0].unflatten(-1, (HEADS, -1)).clone()
                parts[..., silent, :] = 0
                return (parts.flatten(-2),)

            if silent:
                hooks.callback(end.register_forward_pre_hook(hide).remove)
        yield


def mean_loss(model: Any, pairs: list[tuple[list[int], list[int]]]) -> float:
    with torch.inference_mode():
        return float(np.mean([float(target_loss(model, pairs[k : k + 50])) for k in range(0, len(pairs), 50)]))


def bleu(found: list[str], wanted: list[str]) -> float:
    return float(sacrebleu.corpus_bleu(found, [wanted], tokenize="none", force=True).score)


class References(NamedTuple):
    """The validation pairs, what two aligners say of them, and what positions and chance reach."""

    german: list[str]
    english: list[str]
    links: dict[str, Links]
    shapes: np.ndarray

    @classmethod
    def fit(cls, data: Path) -> References:
        text, held = read_pairs(data, "train"), [side[:VALID] for side in read_pairs(data, "val")]
        links = {}
        for name, method in ((ALIGN, "joint"), (IBM1, "ibm1")):
            aligner = alignkit.align(*text, method=method, threads=1).aligner
            links[name] = alignkit.align(*held, model=aligner, threads=1).links
        shapes = np.array([[len(y.split()), len(x.split())] for x, y in zip(*held, strict=True)])
        links[OFF] = off_diagonal(links[ALIGN], shapes)
        return cls(*held, links, shapes)


def look(folder: Path, known: References, test: tuple[list[str], list[str]]) -> dict[str, Any]:
    """What is measured of one checkpoint."""
    model, tokenizer = load(folder)
    kind = "marian" if is_pair(model) else "llama"
    alpha, beta = (quantity_of_heads(model, tokenizer, *known[:2], name) for name in ("weights", "ov"))
    found: dict[str, Any] = {"loss": mean_loss(model, encode(tokenizer, kind, known.german, known.english))}
    found["bleu"] = bleu(translate(model, tokenizer, test[0]), test[1])
    for reference, links in known.links.items():
        words = linked_words(links)
        best = max(position_counts(known.shapes, links).values(), key=lambda counts: counts.sum())
        for name, heads in (("as it is", alpha), ("shifted", alpha.shifted), ("beta", beta)):
            counts = hit_counts(heads, links)
            found[f"{name}, {reference}"] = (counts.sum(axis=1) / words.sum()).tolist()
            found[f"{name}, {reference}, z"] = [z_score(each, best, words) for each in counts]
    return found


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json, OUT.md and OUT.png are written.")
def measure(data: Path, runs: tuple[Path, ...], output: str) -> None:
    """Measure the checkpoints of RUN (Llama) and of TWIN (Marian); what OUT.json has is not measured again."""
    place = Path(f"{output}.json")
    facts: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {}
    known = References.fit(data)
    test = tuple(side[:TESTED] for side in read_pairs(data, "test2016"))
    facts["positions"], facts["random"] = {}, {}
    for reference, links in known.links.items():
        counts, words = position_counts(known.shapes, links), linked_words(links).sum()
        facts["positions"][reference] = {name: each.sum() / words for name, each in counts.items()}
        facts["random"][reference] = random_share(known.shapes, links)
    facts["machine"] = machine()

    def keep() -> None:
        place.write_text(json.dumps(facts, indent=1, default=float) + "\n")

    for kind, run in zip(TITLES, runs, strict=False):
        mine = facts.setdefault(kind, {})
        for folder in sorted(run.glob("step-*")):
            if folder.name not in mine:
                mine[folder.name] = look(folder, known, test)
                print(kind, folder.name, f"{mine[folder.name]['bleu']:.1f} BLEU", flush=True)
                keep()
        end = max(mine)
        claims = {reference: conclude(mine, reference, facts["random"][reference]) for reference in (ALIGN, OFF)}
        facts[f"{kind} claims"] = claims
        few = [tuple(row["head"]) for row in claims[OFF]["heads"]]
        if few and facts.get(f"{kind} without heads", {}).get("step") != end:
            facts[f"{kind} without heads"] = ablate(run / end, mine[end], few, known, test)
        keep()
    Path(f"{output}.md").write_text(page(facts))
    picture(facts, Path(f"{output}.png"))
    click.echo(page(facts))


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("folders", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def cost(data: Path, folders: tuple[Path, ...], output: str) -> None:
    """Processor time and memory of `alignkit attention` for the 1,000 pairs of test2016, by the layers kept."""
    rows = []
    text = [data / f"test2016.{side}" for side in ("de", "en")]
    need_files(*text)
    with tempfile.TemporaryDirectory() as scratch:
        few = [Path(scratch, side) for side in ("de", "en")]
        for whole, part in zip(text, few, strict=True):
            part.write_text(f"{next(iter(read_lines(whole)))}\n")
        for folder in folders:
            kind = "marian" if is_pair(load(folder)[0]) else "llama"
            for layers in (0, 1, 2, LAYERS):  # 0: of one pair
                chosen = [word for k in range(layers or LAYERS) for word in ("--layer", str(k))]
                command = [sys.executable, "-m", "alignkit", "attention", str(folder)]
                command += [*map(str, text if layers else few), *chosen, "--threads", "1", "--device", "cpu", "-q"]
                process = subprocess.Popen([*command, "-o", str(Path(scratch, "a.npz"))])
                _, status, used = os.wait4(process.pid, 0)
                if status:
                    raise SystemExit(2)
                size = Path(scratch, "a.npz").stat().st_size / 1e6
                rows.append(
                    {
                        "model": kind,
                        "pairs": 1000 if layers else 1,
                        "layers": layers or LAYERS,
                        "seconds": used.ru_utime + used.ru_stime,
                        "memory": used.ru_maxrss / 1024,
                        "file": size,
                    }
                )
    lines = [
        "# Cost of `alignkit attention`",
        "",
        f"Multi30k's test2016, {LAYERS} layers, {HEADS} heads, width {WIDTH}, one thread; {machine()}.",
        "With one pair, it is the cost of starting and of loading PyTorch and the model.",
        "",
        "| model | pairs | layers kept | processor time, s | peak memory, MiB | file, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {TITLES[row['model']]} | {row['pairs']} | {row['layers']} | {row['seconds']:.1f} "
        f"| {row['memory']:.0f} | {row['file']:.1f} |"
        for row in rows
    ]
    Path(f"{output}.json").write_text(json.dumps(rows, indent=1) + "\n")
    Path(f"{output}.md").write_text("\n".join(lines) + "\n")
    click.echo("\n".join(lines))


def best_hits(found: dict[str, Any], reference: str = ALIGN) -> np.ndarray:
    """(H, 2): hits of each head, as it is and shifted."""
    return np.array([found[f"{how}, {reference}"] for how in ("as it is", "shifted")]).T


def ablate(
    folder: Path,
    found: dict[str, Any],
    few: list[tuple[int, int]],
    known: References,
    test: tuple[list[str], list[str]],
) -> dict[str, Any]:
    """BLEU without the best heads, without ``few`` of them, and without random ones; and the loss without each."""
    model, tokenizer = load(folder)
    pairs = encode(tokenizer, "marian" if is_pair(model) else "llama", known.german, known.english)[:200]
    heads, hits = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)], best_hits(found).max(axis=1)
    best = [heads[k] for k in np.argsort(-hits, kind="stable")[:ABLATED]]
    rng = np.random.default_rng(2)

    def score(chosen: Sequence[tuple[int, int]]) -> float:
        with without_heads(model, chosen):
            return bleu(translate(model, tokenizer, test[0]), test[1])

    def in_layers_of(chosen: list[tuple[int, int]], among: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """As many heads of each layer as are chosen, drawn from some; fewer where there are fewer."""
        drawn = []
        for layer in range(LAYERS):
            rest = [head for head in among if head[0] == layer]
            count = min(sum(head[0] == layer for head in chosen), len(rest))
            drawn += [rest[k] for k in rng.choice(len(rest), count, replace=False)] if count else []
        return drawn

    random = [[heads[k] for k in rng.choice(len(heads), ABLATED, replace=False)] for _ in range(SETS)]
    by_layer = [in_layers_of(best, heads) for _ in range(SETS)]
    others = [in_layers_of(few, [head for head in heads if head not in few]) for _ in range(SETS)]
    whole, costs = mean_loss(model, pairs), []
    for head in heads:
        with without_heads(model, [head]):
            costs.append(mean_loss(model, pairs) - whole)
    return {
        "step": folder.name,
        "best": best,
        "bleu": found["bleu"],
        "bleu without the best": score(best),
        "bleu without random": [score(each) for each in random],
        "bleu without random of the same layers": [score(each) for each in by_layer],
        "few": few,
        "bleu without the few": score(few),
        "bleu without others of their layers": [score(each) for each in others],
        "cost of each": costs,
        "correlation of hits and cost": float(spearmanr(hits, costs).statistic),
    }


def half_step(steps: Sequence[int], hits: Sequence[float], chance: float) -> float:
    """The step (by logarithm between checkpoints) at which hits reach half of their last excess over chance."""
    values, logs = np.array(hits) - chance, np.log(np.maximum(steps, 25))
    half = values[-1] / 2
    k = int(np.argmax(values >= half))
    if k == 0:
        return float(steps[0])
    share = (half - values[k - 1]) / (values[k] - values[k - 1])
    return float(np.exp(logs[k - 1] + share * (logs[k] - logs[k - 1])))


def conclude(mine: dict[str, Any], reference: str, random: float) -> dict[str, Any]:
    """The figures of the first two claims, of one model's checkpoints and one reference's links."""
    critical = norm.isf(0.05 / (2 * LAYERS * HEADS) / 2)
    names = sorted(mine)
    last, steps, rows = mine[names[-1]], [int(name[5:]) for name in names], []
    for k, shift in enumerate(best_hits(last, reference).argmax(axis=1)):
        how = "shifted" if shift else "as it is"
        if last[f"{how}, {reference}, z"][k] <= critical:
            continue
        alpha, beta = ([mine[name][f"{each}, {reference}"][k] for name in names] for each in (how, "beta"))
        row = {"head": [k // HEADS, k % HEADS], "rows": how, "alpha": alpha[-1], "beta": beta[-1]}
        row["alpha half"] = half_step(steps, alpha, random)
        row["beta half"] = half_step(steps, beta, random) if beta[-1] > random else None
        rows.append(row)
    told = [row for row in rows if row["beta half"] is not None]
    earlier = sum(row["beta half"] < row["alpha half"] for row in told)
    counts = {
        name: int(
            np.sum(
                np.max([mine[name][f"{how}, {reference}, z"] for how in ("as it is", "shifted")], axis=0)
                > critical
            )
        )
        for name in names
    }
    p = binomtest(earlier, len(told)).pvalue if told else None
    return {"heads": rows, "beta first": earlier, "of": len(told), "p": p, "alignment heads": counts}


def page(facts: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Alignment heads through training",
        "",
        f"Multi30k, German to English, {VALID} validation pairs for hits, {TESTED} of test2016 for BLEU; "
        f"{facts['machine']}.",
        "What the columns are and what was expected is in the docstring of `benchmarks/language_model.py`, from",
        "before the runs but for what it says was changed.",
        "",
    ]
    for reference in (ALIGN, OFF, IBM1):
        position, value = max(facts["positions"][reference].items(), key=lambda item: item[1])
        lines.append(
            f"- Hits ({reference}): a random source word {100 * facts['random'][reference]:.0f} %, the "
            f"best position rule ({position}) {100 * value:.0f} %."
        )
    for kind, title in TITLES.items():
        if kind not in facts:
            continue
        claims, end = facts[f"{kind} claims"], max(facts[kind])
        lines += [
            "",
            f"## {title}",
            "",
            "| step | loss | BLEU | alignment heads | off the diagonal | best head, hits: align | off | IBM 1 | "
            "best beta: align | off |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for name in sorted(facts[kind]):
            found = facts[kind][name]
            tops = [best_hits(found, reference).max() for reference in (ALIGN, OFF, IBM1)]
            tops += [max(found[f"beta, {reference}"]) for reference in (ALIGN, OFF)]
            counts = " | ".join(str(claims[reference]["alignment heads"][name]) for reference in (ALIGN, OFF))
            shares = " | ".join(f"{100 * x:.0f}" for x in tops)
            lines.append(f"| {int(name[5:])} | {found['loss']:.2f} | {found['bleu']:.1f} | {counts} | {shares} |")
        for reference in (ALIGN, OFF):
            lines += ["", *heads_table(claims[reference], reference, end)]
        without = facts.get(f"{kind} without heads")
        if without is None:
            continue  # no head to ablate
        listed = [
            ", ".join(f"{x:.1f}" for x in sorted(without[f"bleu without {which}"]))
            for which in ("random", "random of the same layers", "others of their layers")
        ]
        few = ", ".join(f"{layer}.{head}" for layer, head in without["few"])
        lines += [
            "",
            f"BLEU {without['bleu']:.1f}; without the best ten heads {without['bleu without the best']:.1f}; "
            f"without ten random ones {listed[0]}; without ten random ones of the same layers {listed[1]}. Rank "
            "correlation of a head's hits with the loss that ablating it costs: "
            f"{without['correlation of hits and cost']:.2f}.",
            f"Without the alignment heads off the diagonal ({few}), BLEU {without['bleu without the few']:.1f}; "
            f"without ten draws of as many other heads of their layers, {listed[2]}.",
        ]
    return "\n".join(lines) + "\n"


def heads_table(claims: dict[str, Any], reference: str, end: str) -> list[str]:
    """The alignment heads by one reference, and whether beta came first."""
    if not claims["heads"]:
        return [f"No alignment head ({reference}) at step {int(end[5:])}."]
    lines = [
        f"Alignment heads ({reference}) at step {int(end[5:])}:",
        "",
        "| head | rows | alpha | beta | step of half alpha | of half beta |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in sorted(claims["heads"], key=lambda row: -row["alpha"]):
        halves = [f"{row[name]:.0f}" if row[name] is not None else "" for name in ("alpha half", "beta half")]
        shares = " | ".join(f"{100 * row[name]:.0f}" for name in ("alpha", "beta"))
        head = f"{row['head'][0]}.{row['head'][1]}"
        lines.append(f"| {head} | {row['rows']} | {shares} | {' | '.join(halves)} |")
    missing = len(claims["heads"]) - claims["of"]
    p = f" (sign test: p = {claims['p']:.2g})" if claims["of"] else ""
    first = f"Beta reached its half before alpha in {claims['beta first']} of {claims['of']}{p}"
    return [*lines, "", f"{first}; in {missing} more it ended no better than a random word."]


def picture(facts: dict[str, Any], path: Path) -> None:
    """Hits off the diagonal of the best heads' alpha and beta, by step."""
    import matplotlib.pyplot as plt

    kinds = [kind for kind in TITLES if kind in facts]
    size = (4 * len(kinds), 3)
    figure, axes = plt.subplots(1, len(kinds), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axis, kind in zip(axes[0], kinds, strict=True):
        names = sorted(facts[kind])
        steps = [max(int(name[5:]), 25) for name in names]
        hits = best_hits(facts[kind][names[-1]], OFF)
        for k in np.argsort(-hits.max(axis=1), kind="stable")[:5]:
            how = ("as it is", "shifted")[hits[k].argmax()]
            for each, colour, label in ((how, "C0", "alpha"), ("beta", "C1", "beta")):
                shares = [100 * facts[kind][name][f"{each}, {OFF}"][k] for name in names]
                axis.plot(steps, shares, colour, alpha=0.7, lw=1, label=label)
        for value, style, label in (
            (max(facts["positions"][OFF].values()), "--", "positions"),
            (facts["random"][OFF], ":", "random"),
        ):
            axis.axhline(100 * value, color="0.5", ls=style, lw=1, label=label)
        axis.set(xscale="log", xlabel="step (0 at 25)", title=TITLES[kind])
    axes[0, 0].set_ylabel("hits off the diagonal, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes[0, 0].legend(once.values(), once, frameon=False)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    run_benchmark(main)
