"""What attention mechanisms cost: processor time of a training step, beside softmax's.

    python benchmarks/step_cost.py -o benchmarks/results/step-cost

Every normalizer with the score function ``general``, and every score function with softmax, takes steps of Adam on
random sentences of 40 tokens, in the LSTM network of the paper: the attention alone, forwards and backwards, and
the whole step. Times are those of the process on one thread, not of the clock, the median of some steps that are
taken by all mechanisms in turn. OUT.json and OUT.md have the times and their ratios to softmax's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
import torch
from inputs import machine, run_benchmark

from alignkit.neural.devices import Batch, set_threads
from alignkit.neural.networks.encoder_decoder import EncoderDecoder, TranslationNetwork
from alignkit.neural.settings import NORMALIZERS, SCORE_FUNCTIONS, LstmSettings, new_network
from alignkit.neural.training.translation import batch_loss

VOCABULARY = 8000
BOUND = 3.0


def mechanisms() -> list[str]:
    """Every normalizer, every score function."""
    normalizers = [f"general+{name}" for name in NORMALIZERS]
    scores = [f"{name}+softmax" for name in SCORE_FUNCTIONS if name != "general"]
    return ["uniform", *normalizers, *scores]


def random_batch(size: int, length: int) -> Batch:
    """Sentences of one length."""
    generator = torch.Generator().manual_seed(1)
    source, target = torch.randint(5, VOCABULARY, (2, length, size), generator=generator)
    lengths = np.full(size, length)
    previous = torch.cat([torch.ones_like(target[:1]), target[:-1]])
    return Batch(np.arange(size), source, lengths, target, previous, lengths, torch.arange(size * length))


def attention_step(network: TranslationNetwork, size: int, length: int) -> Callable[[], Any]:
    """The attention alone, forwards and backwards."""
    assert isinstance(network, EncoderDecoder)
    settings, attention = network.settings, network.attention
    generator = torch.Generator().manual_seed(2)
    s = torch.randn(size, length, settings.hidden, generator=generator).requires_grad_()
    h = torch.randn(size, length, settings.encoding, generator=generator).requires_grad_()

    def step() -> None:
        context, _ = attention(s, h, None)
        context.sum().backward()
        network.zero_grad(set_to_none=True)
        s.grad = h.grad = None

    return step


def network_step(network: TranslationNetwork, batch: Batch) -> Callable[[], Any]:
    """A whole step of training."""
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        batch_loss(network, batch).backward()
        optimizer.step()

    return step


def median_times(steps: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median processor times in milliseconds, the steps taken in turn; the first two rounds do not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats + 2):
        for name, step in steps.items():
            start = process_time()
            step()
            times[name].append(1000 * (process_time() - start))
    return {name: float(np.median(found[2:])) for name, found in times.items()}


@click.command()
@click.option("--length", type=click.IntRange(min=1), default=40, show_default=True, help="L and T.")
@click.option("--batch", "size", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=15, show_default=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(length: int, size: int, repeats: int, output: str) -> None:
    """Processor time of a training step with each attention mechanism."""
    set_threads(1)
    torch.manual_seed(0)
    networks = {
        name: new_network(LstmSettings(vocabulary=VOCABULARY, attention=name)).train() for name in mechanisms()
    }
    alone = median_times({n: attention_step(net, size, length) for n, net in networks.items()}, repeats)
    batch = random_batch(size, length)
    whole = median_times({n: network_step(net, batch) for n, net in networks.items()}, repeats)
    base = "general+softmax"
    rows = [
        {
            "mechanism": name,
            "attention_ms": alone[name],
            "attention_ratio": alone[name] / alone[base],
            "step_ms": whole[name],
            "step_ratio": whole[name] / whole[base],
        }
        for name in networks
    ]
    facts = {"machine": machine(), "torch": torch.__version__, "length": length, "batch": size, "repeats": repeats}
    over = [row["mechanism"] for row in rows if row["step_ratio"] > BOUND]
    Path(f"{output}.json").write_text(json.dumps({**facts, "over_the_bound": over, "rows": rows}, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(facts, rows, over))
    click.echo(f"above {BOUND} times softmax's step: {', '.join(over) or 'none'}", err=True)


def markdown(facts: dict[str, Any], rows: list[dict[str, Any]], over: list[str]) -> str:
    """The page."""
    lines = [
        "# What a training step costs",
        "",
        f"{facts['machine']}; torch {facts['torch']}; one thread. Sentences of {facts['length']} tokens, "
        f"{facts['batch']} in a batch; the LSTM network of the paper, {VOCABULARY} subwords. Milliseconds of "
        f"processor "
        f"time, medians of {facts['repeats']}.",
        "",
        "| mechanism | attention alone | / softmax's | whole step | / softmax's |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['mechanism']} | {row['attention_ms']:.1f} | {row['attention_ratio']:.2f} "
        f"| {row['step_ms']:.0f} | {row['step_ratio']:.2f} |"
        for row in rows
    ]
    verdict = ", ".join(over) if over else "none"
    lines += ["", f"Above {BOUND:g} times softmax's step: {verdict}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_benchmark(main)
