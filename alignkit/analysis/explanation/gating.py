"""Gates: which words can be ignored, and from which layer on (De Cao et al. 2020)."""

from __future__ import annotations

import numpy as np

from alignkit.analysis.explanation.rows import SIZES, Row, mean_row
from alignkit.analysis.explanation.subject import Subject
from alignkit.neural.training.gating import GatedTexts, gated_texts, train_gates


def gate_rows(subject: Subject) -> list[Row]:
    """What passes gates at each layer, what that changes, and from which layer on words are ignored."""
    found = [train_layer(subject, layer) for layer in range(subject.network.encoder.depth + 1)]
    rows, diverged = [], "divergence of the output if only these pass, nats"
    for layer, gated in enumerate(found):
        name = layer_name(layer)
        share = [passed.mean() for passed in gated.passed]
        attended = [
            float(one.alpha @ passed / one.alpha.sum())
            for one, passed in zip(subject.decisions, gated.passed, strict=True)
        ]
        same = (gated.logits > 0) == (subject.probabilities > 0.5)
        rows += [
            mean_row(f"{name}, share", share, f"share of words whose {name} must pass"),
            mean_row(f"{name}, divergence", gated.divergence, diverged, SIZES),
            mean_row(f"{name}, same decision", same, "share of decisions that stay if only these pass"),
            mean_row(f"{name}, attention", attended, "attention on these words, of all"),
        ]
    first = ignored_from([gated.passed for gated in found])
    for layer in range(len(found)):
        share = [float((places == layer).mean()) for places in first]
        meaning = f"share of words that can be ignored from the {layer_name(layer)} on"
        rows.append(mean_row(f"ignored from {layer_name(layer)}", share, meaning))
    never = [float((places == len(found)).mean()) for places in first]
    return [*rows, mean_row("ignored never", never, "share of words that pass to the last layer")]


def layer_name(layer: int) -> str:
    """What rows call a layer."""
    return "embedding" if layer == 0 else f"state {layer}"


def train_layer(subject: Subject, layer: int) -> GatedTexts:
    """What gates at one layer let pass, trained on the training text."""
    gates = train_gates(
        subject.network,
        layer,
        subject.training_text,
        subject.run_settings(layer).training,
        subject.settings.margin,
        progress=subject.next_progress(f"gates, {layer_name(layer)}"),
    )
    return gated_texts(gates, subject.text)


def ignored_from(passed: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Per text int64 (L,): the first layer from which on a word never passes; the number of layers if none.

    Args:
        passed: per layer and text bool (L,).
    """
    return [
        len(passed) - (np.cumsum(np.array(layers)[::-1], axis=0) == 0).sum(0)
        for layers in zip(*passed, strict=True)
    ]
