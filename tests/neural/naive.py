"""The network written out for one pair and one position, from its weights and the paper's equations."""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def lstm(inputs, weights, prefix, h, c):
    """States of one direction of one layer; PyTorch's order of gates: input, forget, cell, output."""
    w, u = weights["weight_ih_" + prefix], weights["weight_hh_" + prefix]
    b = weights["bias_ih_" + prefix] + weights["bias_hh_" + prefix]
    out = []
    for x in inputs:
        i, f, g, o = np.split(w @ x + u @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return out, h, c


class NaiveNetwork:
    """float64 arithmetic on the weights of an EncoderDecoder."""

    def __init__(self, network):
        self.settings = network.settings
        self.w = {name: t.detach().double().numpy() for name, t in network.state_dict().items()}

    def part(self, name):
        return {k.removeprefix(name + "."): v for k, v in self.w.items() if k.startswith(name + ".")}

    def encode(self, ids, scales=None):
        """h_1..h_L, and the decoder's first h and c per layer; the embedding of x_l times scales[l], if given."""
        size, weights = self.settings.hidden, self.part("encoder")
        scales = np.ones(len(ids)) if scales is None else scales
        x = [self.w["embedding.weight"][i] * scale for i, scale in zip(ids, scales, strict=True)]
        start = []
        for layer in range(self.settings.layers):
            zero = np.zeros(size)
            forward, h, c = lstm(x, weights, f"l{layer}", zero, zero)
            if not self.settings.bidirectional:
                x, state = forward, (h, c)
            else:
                back, hb, cb = lstm(x[::-1], weights, f"l{layer}_reverse", zero, zero)
                x = [np.concatenate(pair) for pair in zip(forward, back[::-1], strict=True)]
                state = ((h + hb) / 2, (c + cb) / 2)
            start.append(state)
        return x, start

    def decode(self, ids, start):
        """s_1..s_T; the input at t is the embedding of token t-1, BOS = 1 at first."""
        x = [self.w["embedding.weight"][i] for i in [1, *ids][: len(ids)]]
        for layer, (h, c) in enumerate(start):
            x, _, _ = lstm(x, self.part("decoder"), f"l{layer}", h, c)
        return x

    def attention(self, s, h):
        if self.settings.attention == "uniform":
            return np.full(len(h), 1 / len(h))
        query = self.w["attention.score.query.weight"] @ s + self.w["attention.score.query.bias"]
        return softmax(np.array([state @ query for state in h]))

    def predict(self, s, mixed):
        """The distribution over y_t from s_t and a mean of encoder states."""
        c = self.w["context.weight"] @ mixed + self.w["context.bias"]
        if self.settings.output == "sum":
            x = s + c
        else:
            joined = np.concatenate([s, c])
            x = np.maximum(self.w["combine.weight"] @ joined + self.w["combine.bias"], 0)
        return softmax(self.w["output.weight"] @ x + self.w["output.bias"])

    def matrices(self, source, target):
        """alpha (T, L), beta (T, L), and the distributions (T, V) under teacher forcing."""
        h, start = self.encode(source)
        states = self.decode(target, start)
        alpha = np.array([self.attention(s, h) for s in states]).reshape(len(target), len(source))
        beta = np.array([[self.predict(s, one)[y] for one in h] for s, y in zip(states, target, strict=True)])
        mixed = [sum(a * one for a, one in zip(row, h, strict=True)) for row in alpha]
        p = [self.predict(s, m) for s, m in zip(states, mixed, strict=True)]
        return alpha, beta, np.array(p)


def delta_by_autograd(network, source, target):
    """float64 (T, L): d log p(y_t) / d omega_l, a backward pass per target token, through torch's own LSTM."""
    import torch

    size = network.settings
    omega = torch.ones(len(source), dtype=torch.float64, requires_grad=True)
    x = network.embedding(torch.tensor(np.array(source, np.int64))) * omega[:, None]
    h, (last_h, last_c) = network.encoder(x[:, None])
    start = [last.view(size.layers, -1, 1, size.hidden).mean(1) for last in (last_h, last_c)]
    previous = torch.tensor(np.array([1, *target[:-1]], np.int64))
    s = network.decoder(network.embedding(previous)[:, None], tuple(start))[0][:, 0]
    h = h[:, 0]
    if size.attention == "uniform":
        weights = torch.full((len(target), len(source)), 1 / len(source), dtype=torch.float64)
    else:
        weights = torch.softmax(network.attention.score.query(s) @ h.t(), 1)
    logits = network.output(network.features(s, network.context(weights @ h)))
    logs = torch.log_softmax(logits, 1)[range(len(target)), torch.tensor(np.array(target, np.int64))]
    return np.array([torch.autograd.grad(one, omega, retain_graph=True)[0].numpy() for one in logs])
