"""A small classifier with attention, for experiments on labelled sentences of two classes.

A bidirectional LSTM makes states h_l of the embedded words; attention is softmax over l of v . ReLU(Q h_l), or
1/L; with c = sum_l alpha_l h_l the log-odds of the second class are W . c + b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from alignkit.errors import AlignkitError
from alignkit.experiments.texts import Labelled, read_labelled
from alignkit.text.bitext import Corpus

UNK = 0  #: the id of every rare word (:func:`alignkit.experiments.texts.frequent`)


@dataclass(frozen=True)
class ClassifierPlan:
    """The labelled text, the size of the classifiers, and their training.

    Attributes:
        labelled: lines LABEL TAB TEXT with two labels; the sample if empty.
        sentences: how many are read; 0 for all. Nine of ten are trained on, the rest is held out.
        minimum: a word seen fewer times is unknown.
        longest: sentences are cut there.
        held: held-out sentences that are looked at, at most.
        embedding, hidden: sizes of a word and of each LSTM direction.
        rate, batch, epochs: of Adam.
        seeds: pairs of classifiers, each trained from its own.
    """

    labelled: str = ""
    sentences: int = 0
    minimum: int = 3
    longest: int = 40
    held: int = 300
    embedding: int = 100
    hidden: int = 64
    rate: float = 2e-3
    batch: int = 32
    epochs: int = 4
    seeds: int = 3


@dataclass(frozen=True, eq=False)
class Padded:
    """B sentences on top of each other: words int64 (B, L), mask (B, L), lengths int64 (B,), y 0 or 1 (B,)."""

    words: Tensor
    mask: Tensor
    lengths: Tensor
    y: Tensor


def pad(text: Corpus, labels: np.ndarray, sentences: np.ndarray) -> Padded:
    """These sentences (indices), padded at the end."""
    part = text.take(sentences)
    words = np.zeros((len(part), int(part.lengths.max())), np.int64)
    mask = np.arange(words.shape[1]) < part.lengths[:, None]
    words[mask] = part.tokens
    lengths, y = torch.from_numpy(part.lengths), torch.from_numpy(labels[sentences]).float()
    return Padded(torch.from_numpy(words), torch.from_numpy(mask), lengths, y)


class Classifier(nn.Module):
    """The network of the module's text."""

    def __init__(self, types: int, embedding: int, hidden: int, uniform: bool = False) -> None:
        super().__init__()
        self.uniform = uniform
        self.embedding = nn.Embedding(types, embedding)
        self.encoder = nn.LSTM(embedding, hidden, bidirectional=True, batch_first=True)
        self.query = nn.Linear(2 * hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.output = nn.Linear(2 * hidden, 1)

    def forward(self, batch: Padded) -> tuple[Tensor, Tensor, Tensor]:
        """Log-odds (B,), attention alpha (B, L), and relevance W . h_l (B, L); 0 where there is no word."""
        x = self.embedding(batch.words)
        packed = pack_padded_sequence(x, batch.lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=x.shape[1])
        scores = self.score(torch.relu(self.query(h))).squeeze(2)
        if self.uniform:
            scores = torch.zeros_like(scores)
        alpha = torch.softmax(scores.masked_fill(~batch.mask, float("-inf")), 1)
        relevance = h @ self.output.weight[0]
        logit = (alpha * relevance).sum(1) + self.output.bias
        return logit, alpha, relevance


Loss = Callable[[Padded, np.ndarray, Tensor, Tensor], Tensor]  #: (batch, sentences, log-odds, attention)


def label_loss(batch: Padded, sentences: np.ndarray, logit: Tensor, alpha: Tensor) -> Tensor:
    """Mean cross-entropy with the labels, nats."""
    return binary_cross_entropy_with_logits(logit, batch.y)


def read_split(plan: ClassifierPlan) -> tuple[Labelled, np.ndarray, np.ndarray]:
    """The text, and which of its sentences are trained on and which are held out.

    Raises:
        AlignkitError: not two labels; other errors as :func:`alignkit.experiments.texts.read_labelled`.
    """
    data = read_labelled(plan.labelled, plan.sentences, plan.minimum, plan.longest)
    if len(data.names) != 2:
        raise AlignkitError(f"{plan.labelled}: two labels are needed, not {', '.join(data.names)}")
    cut = len(data.text) * 9 // 10
    return data, np.arange(cut), np.arange(cut, len(data.text))[: plan.held]


def train_classifier(
    data: Labelled,
    sentences: np.ndarray,
    plan: ClassifierPlan,
    seed: int,
    uniform: bool = False,
    loss: Loss = label_loss,
    tick: Callable[[], None] = lambda: None,
    first: Classifier | None = None,
) -> Classifier:
    """Trains a classifier on these sentences (indices); the same seed gives the same start and order.

    Args:
        data, plan: see there.
        sentences: what to train on.
        seed: of weights and batches.
        uniform: attention is 1/L.
        loss: what is minimised.
        tick: called after each epoch.
        first: a classifier whose weights training starts from, but for those of its attention, which are fresh.
    """
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        network = Classifier(len(data.text.vocabulary), plan.embedding, plan.hidden, uniform)
    if first is not None:
        known = {name: w for name, w in first.state_dict().items() if not name.startswith(("query", "score"))}
        network.load_state_dict(known, strict=False)
    optimiser = torch.optim.Adam(network.parameters(), lr=plan.rate)
    for epoch in range(plan.epochs):
        rng = np.random.default_rng([seed, epoch, 7])
        order = rng.permutation(sentences)
        # Like lengths together within runs of 16 batches: less padding, and still a shuffled order.
        runs = [order[i : i + 16 * plan.batch] for i in range(0, len(order), 16 * plan.batch)]
        runs = [part[np.argsort(data.text.lengths[part], kind="stable")] for part in runs]
        batches = [part[i : i + plan.batch] for part in runs for i in range(0, len(part), plan.batch)]
        for place in rng.permutation(len(batches)):
            batch = pad(data.text, data.labels, batches[place])
            logit, alpha, _ = network(batch)
            optimiser.zero_grad()
            loss(batch, batches[place], logit, alpha).backward()
            optimiser.step()
        tick()
    return network.eval()


@dataclass(frozen=True, eq=False)
class View:
    """What a classifier says of N sentences.

    Attributes:
        logit: (N,), log-odds of the second class.
        alpha, relevance: N arrays (L,); relevance is (2y - 1) W . h_l, for the right class y.
    """

    logit: np.ndarray
    alpha: list[np.ndarray]
    relevance: list[np.ndarray]


@torch.inference_mode()
def view(network: Classifier, data: Labelled, sentences: np.ndarray) -> View:
    """Looks at sentences (indices), 64 at a time."""
    logits, alphas, relevances = [], [], []
    for low in range(0, len(sentences), 64):
        batch = pad(data.text, data.labels, sentences[low : low + 64])
        logit, alpha, relevance = network(batch)
        logits.append(logit.numpy())
        signed = relevance * (2 * batch.y - 1).unsqueeze(1)
        for row, length in enumerate(batch.lengths.tolist()):
            alphas.append(alpha[row, :length].numpy())
            relevances.append(signed[row, :length].numpy())
    return View(np.concatenate(logits), alphas, relevances)


def without_each(text: Corpus, sentence: int) -> Corpus:
    """The L sentences that are this one without its first, second, ... last word."""
    words = text[sentence]
    length = len(words)
    rows = np.broadcast_to(words, (length, length))[~np.eye(length, dtype=bool)]
    offsets = np.arange(length + 1, dtype=np.int64) * (length - 1)
    return Corpus(rows.astype(np.int32), offsets, text.vocabulary)


@torch.inference_mode()
def influence(network: Classifier, data: Labelled, sentences: np.ndarray, logit: np.ndarray) -> list[np.ndarray]:
    """Leave-one-out: log p(y | x) minus log p(y | x without word l), N arrays (L,), nats; 0 for a single word.

    Args:
        network, data, sentences: as in :func:`view`.
        logit: (N,), of the whole sentences.
    """
    found = []
    for place, sentence in enumerate(sentences):
        sign = 2 * int(data.labels[sentence]) - 1
        shorter = without_each(data.text, int(sentence))
        if len(shorter) < 2:
            found.append(np.zeros(len(shorter)))
            continue
        batch = pad(shorter, np.full(len(shorter), data.labels[sentence]), np.arange(len(shorter)))
        left = network(batch)[0].double().numpy()
        found.append(np.logaddexp(0, -sign * left) - np.logaddexp(0, -sign * float(logit[place])))
    return found
