"""Alignment heads through the training of small translation models: a decoder-only one and an encoder-decoder.

    python benchmarks/language_model.py train MULTI30K RUN --kind llama
    python benchmarks/language_model.py train MULTI30K TWIN --kind marian
    python benchmarks/language_model.py measure MULTI30K RUN TWIN -o benchmarks/results/language_model

Both learn to translate Multi30k's tokenised German into English: a Llama of transformers (5 layers of 8 heads, "<s>
source = target </s>", loss on the target) and a Marian (encoder and decoder of the same sizes, loss on the target).
Checkpoints stand at log-spaced steps. Training goes on where it was stopped; the last checkpoint that both reached in
the time that there was is the end.

What is measured, and what was expected; this text was written before the first training run:

*Hits* of a head: the share of the target words (of the first 500 validation pairs) with at least one link of `alignkit
align`, fitted on the training text, whose source word with the most attention is one that they are linked to. Rows are
taken as they are (the step that predicts the word) or shifted (the word's own); of each head the better of the two at
the last checkpoint. *Alpha* is attention; *beta* of a head is what its OV circuit says of words, whatever it attends to:
softmax over the vocabulary of unembedding(final norm(W_O W_V h_l)) at y_t, where h_l is the normed input of the head's
layer at source token l (of the encoder-decoder, the encoder's output, and no final norm, for it has none). *Position
baselines*: the diagonal, the first and the last word, and the word at the same place, one or two before or after; the
best of them counts. *Alignment head*: its hits exceed that baseline by a paired z test over sentence pairs, two-sided at
5 % divided by the number of heads times two (shifted or not).

1. Beta leads alpha. Of each head that is an alignment head at the last checkpoint, the step at which hits first reach
   half of their final excess over a random source word, interpolated in the logarithm of the step, is smaller for beta
   than for alpha. Supported (or contradicted) if more (fewer) heads do so than a sign test at 5 % allows; heads whose
   beta ends no better than a random word are counted apart, and left out of the test.
2. Alignment heads appear at a certain time: none up to step 200, and at least half of the final number are there at
   one checkpoint of which at most a quarter were there at half as many steps.
3. Ablating the best ten heads (chosen by hits on validation, their outputs set to zero) costs more BLEU (test2016,
   greedy) than ablating any of ten random sets of ten. Reported beside it: random sets with as many heads of each layer;
   and the rank correlation over heads of hits and the loss that ablating the head alone costs.
4. The best head of the decoder-only model agrees less with IBM Model 1 and with `align` than that of the
   encoder-decoder at the end, and appears later.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from inputs import need_files, run_benchmark
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from alignkit.text.reading import read_lines

STEPS = (0, 50, 100, 200, 350, 500, 700, 1000, 1400, 2000, 2800, 4000)  #: of checkpoints, and the last step
PIECES, WIDTH, INNER, LAYERS, HEADS = 6000, 128, 384, 5, 8
BATCH, WARMUP = 64, 400
RATE = {"llama": 2e-3, "marian": 1e-3}  #: the highest; it falls with the square root of the step
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
PAD, BOS, EOS = 0, 1, 2
TEMPLATE = "{source} = {target}"


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


if __name__ == "__main__":
    run_benchmark(main)
