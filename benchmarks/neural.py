"""Speed of training and probing against the matrix products that bound them.

    python benchmarks/neural.py TRAIN.de TRAIN.en VALID.de VALID.en [--json] [--device NAME] [--threads N]

The peak is measured in the same process, before and after, as the best of several square float32 products.
Training costs 6 FLOP per parameter and token (Kaplan et al. 2020, forward and backward), source tokens through
the encoder and target tokens through the rest; the probe 2 T L V H per pair. Compilation of kernels and the
first steps are left out; every figure is the best of several repetitions, as others may use the machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inputs import need_files, run_benchmark

from alignkit.neural.devices import Batch, Batcher, BatchSizes, device_of, scoring_batches
from alignkit.neural.networks.encoder_decoder import EncoderDecoder, TranslationNetwork
from alignkit.neural.proxy import fit_proxy
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import PRESETS, ProxySettings
from alignkit.neural.training.loop import optimise
from alignkit.neural.training.trainer import Trainer, learn_tokenizer
from alignkit.neural.training.translation import TranslationTask
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_line_pairs
from alignkit.text.tokenization import encode_bitext


def seconds(work: Callable[[], Any], device: torch.device, repeat: int = 3) -> float:
    """The shortest of several runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best


def peak(device: torch.device) -> float:
    """GFLOP/s of a float32 matrix product."""
    size = 8192 if device.type == "cuda" else 2048
    a = torch.randn(size, size, device=device)
    return 2 * size**3 / seconds(lambda: a @ a, device, 5) / 1e9


def measure_training(trainer: Trainer, steps: int, repeat: int) -> dict[str, float]:
    """Steps/s, tokens/s and GFLOP/s of training, on the same batches each time."""
    task, network = trainer.task, trainer.network
    assert isinstance(task, TranslationTask)
    assert isinstance(network, EncoderDecoder)
    batches = task.batches(0)[:steps]
    source = sum(int(task.bitext.source.lengths[pairs].sum()) for pairs in batches)
    target = sum(int(task.bitext.target.lengths[pairs].sum()) for pairs in batches)
    whole, encoder, embedding = (
        sum(p.numel() for p in part.parameters()) for part in (network, network.encoder, network.embedding)
    )
    rest = whole - encoder - embedding

    def loss(step: int) -> torch.Tensor:
        return task.loss(network.train(), batches[step], step)

    def work() -> None:
        for _ in optimise(
            trainer.optimiser, loss, len(batches), seed=0, device=task.device, pinned=network.pinned
        ):
            pass

    work()  # oneDNN compiles a kernel for every new shape
    spent = seconds(work, task.device, repeat)
    return {
        "steps_per_second": len(batches) / spent,
        "target_tokens_per_second": target / spent,
        "gflops": 6 * (encoder * source + rest * target) / spent / 1e9,
    }


def measure_probe(network: EncoderDecoder, text: Bitext, repeat: int) -> dict[str, float]:
    """Pairs/s of the lexical probe and of attention, and GFLOP/s of the probe."""
    size, device = network.settings, device_of(network)
    elements = int((text.source.lengths * text.target.lengths).sum())
    network_scores(network, text.take(np.arange(min(50, len(text)))), "beta")
    beta = seconds(lambda: network_scores(network, text, "beta"), device, repeat)
    alpha = seconds(lambda: network_scores(network, text, "alpha"), device, repeat)
    return {
        "pairs_per_second": len(text) / beta,
        "alpha_pairs_per_second": len(text) / alpha,
        "elements_per_pair": elements / len(text),
        "gflops": 2 * elements * size.vocabulary * size.hidden / beta / 1e9,
    }


def one_pass_per_target(network: TranslationNetwork, batch: Batch) -> list[torch.Tensor | None]:
    """Saliency computed plainly: one backward pass per target position through a retained graph."""
    omega = torch.ones(batch.source.shape, device=batch.source.device, requires_grad=True)
    encoding = network.encode(batch.source, batch.source_lengths, omega)
    logits = network.output(network.decode(batch.previous, encoding, encoding.start).features)
    logs = torch.log_softmax(logits, 2).gather(2, batch.target.t().unsqueeze(2))
    rows: list[torch.Tensor | None] = []
    for step in range(len(batch.target)):
        network.zero_grad()
        omega.grad = None
        logs[:, step].sum().backward(retain_graph=True)
        rows.append(omega.grad)
    return rows


def measure_saliency(network: EncoderDecoder, text: Bitext, repeat: int) -> dict[str, float]:
    """Pairs per second of saliency, and their ratio to the plain computation, in batches of 16."""
    device = device_of(network)
    warm = text.take(np.arange(min(50, len(text))))
    network_scores(network, warm, "delta")
    spent = seconds(lambda: network_scores(network, text, "delta"), device, repeat)
    full = [pairs for pairs in scoring_batches(text, BatchSizes(16)) if len(pairs) == 16]
    some = full[:: max(1, len(full) // 4)][:4]  # short and long sentences
    batches = [Batcher(text, device)(pairs) for pairs in some]
    same = text.take(np.concatenate(some))
    plain = seconds(lambda: [one_pass_per_target(network, batch) for batch in batches], device, 2)
    ours = seconds(lambda: network_scores(network, same, "delta"), device, 2)
    leave = seconds(lambda: network_scores(network, same, "loo"), device, 2)
    return {
        "pairs_per_second": len(text) / spent,
        "plain_pairs_per_second": len(same) / plain,
        "times_plain": plain / ours,
        "leave_one_out_pairs_per_second": len(same) / leave,
    }


def measure_proxy(text: Bitext, valid: Bitext, device: str) -> dict[str, float]:
    """Seconds per epoch of the proxy at the paper's settings."""
    start = time.perf_counter()
    fit_proxy(text, valid, ProxySettings(epochs=1), device=device)
    return {"seconds_per_epoch": time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in ("source", "target", "valid_source", "valid_target"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--batch", type=int, help="pairs per step (default: the paper's 16)")
    parser.add_argument("--steps", type=int, default=60, help="steps per repetition")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    need_files(options.source, options.target, options.valid_source, options.valid_target)
    if options.threads:
        torch.set_num_threads(options.threads)
    lines = read_line_pairs(options.source, options.target)
    held = read_line_pairs(options.valid_source, options.valid_target)
    settings = PRESETS["paper"].change(training={"batch": options.batch})
    tokenizer = learn_tokenizer([*lines.source, *lines.target], settings.text)
    text, valid = (encode_bitext(tokenizer, side.source, side.target) for side in (lines, held))
    trainer = Trainer(TranslationTask(text, valid, settings, tokenizer, device=options.device))
    network, device = trainer.network, trainer.task.device
    assert isinstance(network, EncoderDecoder)
    before = peak(device)
    result: dict[str, Any] = {
        "training": measure_training(trainer, options.steps, options.repeat),
        "probe": measure_probe(network, valid, options.repeat),
        "saliency": measure_saliency(network, valid, options.repeat),
        "proxy": measure_proxy(text, valid, options.device),
    }
    best = max(before, peak(device))
    for part in ("training", "probe"):
        result[part]["share_of_peak"] = result[part]["gflops"] / best
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    result["machine"] = {
        "device": str(device),
        "name": name,
        "threads": torch.get_num_threads(),
        "peak_gflops": best,
        "torch": str(torch.__version__),
        "batch": settings.training.batch,
    }
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
        return
    for part, values in result.items():
        for key, value in values.items():
            print(f"{part:10} {key:26} {value:.3f}" if isinstance(value, float) else f"{part:10} {key:26} {value}")


if __name__ == "__main__":
    run_benchmark(main)
