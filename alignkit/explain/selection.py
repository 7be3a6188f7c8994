"""The tests that select words: rationales that should suffice for the decision, and gates at each layer.

Rationales of networks made to select them (Lei et al. 2016; Bastings et al. 2019), of the largest attention,
gradient and leave-one-out, and of random words, all judged by the classifier (DeYoung et al. 2020). Gates show
which words can be ignored, and from which layer on (De Cao et al. 2020).
"""

from __future__ import annotations

import numpy as np

from alignkit.explain.subject import DIFFERENCES, SIZES, Row, Subject, mean_row, network_probabilities
from alignkit.neural.devices import device_of
from alignkit.neural.training.rationales import (
    GatedTexts,
    SelectionPenalty,
    gated_texts,
    rationales_of,
    train_gates,
    train_rationalizer,
)

#: selectors of the networks that are trained -> what the rows call them
RATIONALIZERS = {"reinforce": "REINFORCE", "hardkuma": "HardKuma", "entmax": "entmax"}


def rationale_rows(subject: Subject) -> list[Row]:
    """Length, pieces, sufficiency and comprehensiveness of all rationales; accuracy of the networks."""
    settings, rows = subject.settings, []
    penalty = SelectionPenalty(settings.share, settings.short, settings.contiguous)
    for number, (selector, name) in enumerate(RATIONALIZERS.items()):
        network = train_rationalizer(
            selector,
            subject.training_text,
            subject.run_settings(number),
            penalty,
            progress=subject.next_progress(f"rationales by {name}"),
            device=str(device_of(subject.network)),
        )
        found = rationales_of(network, subject.text)
        right = (found.logits > 0) == (subject.text.labels == 1)
        rows.append(mean_row(f"{name}, accuracy", right, "accuracy of the network that sees its rationale alone"))
        rows += scored_rationales(subject, name, found.selected)
    for name, order in word_orders(subject).items():
        rows += scored_rationales(subject, name, top_words(order, settings.share))
    return rows


def word_orders(subject: Subject) -> dict[str, list[np.ndarray]]:
    """Per text a value of each word, the larger the sooner it is selected: attention, gradient, and so on."""
    rng = np.random.default_rng([subject.settings.seed, 2])
    alpha = [one.alpha for one in subject.decisions]
    return {
        "attention": alpha,
        "gradient": [np.abs(row[0]) for row in subject.scores("delta")],
        "leave-one-out": [np.abs(row[0]) for row in subject.scores("loo")],
        "random": [rng.permutation(len(row)).astype(float) for row in alpha],
    }


def top_words(order: list[np.ndarray], share: float) -> list[np.ndarray]:
    """Per text bool (L,): a share of its words, at least one, those with the largest values."""
    selected = []
    for values in order:
        count = max(1, int(np.floor(share * len(values) + 1e-9)))
        chosen = np.zeros(len(values), bool)
        chosen[np.argsort(-values, kind="stable")[:count]] = True
        selected.append(chosen)
    return selected


def scored_rationales(subject: Subject, name: str, selected: list[np.ndarray]) -> list[Row]:
    """Rows about the rationales of one kind.

    Args:
        subject: whose classifier is the judge.
        name: of the kind.
        selected: per text bool (L,), the words of its rationale.
    """
    alone, without = rationale_effects(subject, selected)
    fall, more = "fall of p of the decision given", "the same given all but the rationale: more is better"
    pieces = [int(chosen[0]) + int((np.diff(chosen.astype(int)) == 1).sum()) for chosen in selected]
    return [
        mean_row(f"{name}, share", [chosen.mean() for chosen in selected], "share of words in the rationale"),
        mean_row(f"{name}, pieces", pieces, "pieces that the rationale consists of", SIZES),
        mean_row(f"{name}, sufficiency", alone, f"{fall} the rationale alone: less is better", DIFFERENCES),
        mean_row(f"{name}, comprehensiveness", without, more, DIFFERENCES),
    ]


def rationale_effects(subject: Subject, selected: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sufficiency and comprehensiveness, float64 (M,) each (DeYoung et al. 2020).

    How far the probability of the classifier's decision falls if it sees the rationale alone, and if it sees all
    but the rationale.

    Of a text from which no word is left, the probability is that of the bias.
    """
    decided = subject.probabilities > 0.5
    alone = network_probabilities(subject.network, subject.text.without_words([~chosen for chosen in selected]))
    without = network_probabilities(subject.network, subject.text.without_words(selected))
    signs = np.where(decided, 1.0, -1.0)
    return signs * (subject.probabilities - alone), signs * (subject.probabilities - without)


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
