"""Rationales: a few words that should suffice for the decision, scored by sufficiency and comprehensiveness.

Those of networks made to select them (Lei et al. 2016; Bastings et al. 2019), of the largest attention, gradient
and leave-one-out, and of random words, all judged by the classifier (DeYoung et al. 2020).
"""

from __future__ import annotations

import numpy as np

from alignkit.analysis.explanation.rows import Row, mean_row
from alignkit.analysis.explanation.subject import Subject, network_probabilities
from alignkit.neural.devices import device_of
from alignkit.neural.training.rationalization import SelectionPenalty, rationales_of, train_rationalizer

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
    pieces = [int(chosen[0]) + int((np.diff(chosen.astype(int)) == 1).sum()) for chosen in selected]
    return [
        mean_row(f"{name}, share", [chosen.mean() for chosen in selected], "share of words in the rationale"),
        mean_row(f"{name}, pieces", pieces, "pieces that the rationale consists of"),
        mean_row(
            f"{name}, sufficiency", alone, "fall of p of the decision given the rationale alone: less is better"
        ),
        mean_row(f"{name}, comprehensiveness", without, "the same given all but the rationale: more is better"),
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
