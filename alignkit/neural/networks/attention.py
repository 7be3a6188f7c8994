"""Attention of a decoder's states s_t over an encoder's states h_l: score functions, normalizers, attentions.

A score function says how well h_l fits s_t, a_tl; a normalizer turns the scores of a row into weights; the context
of s_t is the mean of the h_l with these weights (paper, section 3.1). To add one of either, write its class here
and a line in :data:`alignkit.neural.settings.SCORE_FUNCTIONS` or :data:`alignkit.neural.settings.NORMALIZERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from entmax import entmax15, entmax_bisect, sparsemax
from torch import Tensor, nn
from torch.nn.functional import one_hot

from alignkit.errors import AlignkitError
from alignkit.neural.devices import one_thread
from alignkit.neural.settings import NORMALIZERS, SCORE_FUNCTIONS, Mechanism, parse_attention
from alignkit.support.packages import imported

#: numbers of a hidden layer, (N, T, L, hidden), that are in memory at a time while scoring; 64 MB
MOST_HIDDEN = 1 << 24


class ScoreFunction(nn.Module, ABC):
    """A score function.

    Without decoder states (``state`` is 0), as in a classifier, h is scored alone: what is made of s is left out,
    or is a learned vector.

    Args:
        state: H, the size of a decoder state, or 0.
        encoding: D, the size of an encoder state.
        hidden: the size of a hidden layer, where there is one.
    """

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        """The scores.

        Args:
            s: (N, T, H), or None.
            h: (N, L, D), arbitrary at padding.
            mask: (N, L), True where there is a token; None if nothing is padded.

        Returns:
            (N, T, L), or (N, 1, L) without ``s``; arbitrary at padding.
        """


class QueryScore(ScoreFunction):
    """a_tl = query_t · h_l with a query made from s_t.

    Without decoder states the query is a learned vector. A subclass that overrides :meth:`forward` has other
    scores: neither the fused kernel nor the written-out derivatives are then used.
    """

    scale = 1.0

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        if not state:
            self.vector = nn.Parameter(torch.empty(encoding).uniform_(-1, 1) * encoding**-0.5)

    @abstractmethod
    def queries(self, s: Tensor) -> Tensor:
        """Queries (N, T, D) of states (N, T, H)."""

    @abstractmethod
    def pull_back(self, by_query: Tensor) -> Tensor:
        """The derivatives in the states, (N, T, H), from those in the queries, (N, T, D)."""

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        queries = self.vector.expand(len(h), 1, -1) * self.scale if s is None else self.queries(s)
        return torch.bmm(queries, h.transpose(1, 2))


class GeneralScore(QueryScore):
    """a_tl = h_l · (W s_t + b), the paper's; "general" in Luong et al. (2015), "bilinear" elsewhere."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        if state:
            self.query = nn.Linear(state, encoding)

    def queries(self, s: Tensor) -> Tensor:
        return self.query(s)

    def pull_back(self, by_query: Tensor) -> Tensor:
        return by_query @ self.query.weight


class DotScore(QueryScore):
    """a_tl = h_l · s_t (Luong et al. 2015); the two directions of a bidirectional encoder's h_l are added."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        if state and encoding % state:
            raise AlignkitError(f"dot attention needs encoder states of {state} numbers, not {encoding}")
        self.directions = encoding // state if state else 1

    def queries(self, s: Tensor) -> Tensor:
        return s.repeat(1, 1, self.directions) * self.scale

    def pull_back(self, by_query: Tensor) -> Tensor:
        return by_query.unflatten(2, (self.directions, -1)).sum(2) * self.scale


class ScaledDotScore(DotScore):
    """a_tl = h_l · s_t / sqrt(D) (Vaswani et al. 2017)."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        self.scale = encoding**-0.5


class AdditiveScore(ScoreFunction):
    """a_tl = v · tanh(W s_t + U h_l + b), plus a constant (Bahdanau et al. 2015)."""

    activation: Callable[[Tensor], Tensor] = staticmethod(torch.tanh)

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        self.query = nn.Linear(encoding, hidden)  # of h, as the paper calls it
        self.value = nn.Linear(hidden, 1)
        if state:
            self.state = nn.Linear(state, hidden, bias=False)

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        of_h = self.query(h)
        if s is None:
            return self.value(self.activation(of_h)).squeeze(2).unsqueeze(1)
        of_s, rows = self.state(s), s.shape[1]
        if not torch.is_grad_enabled():  # scoring: nothing has to be kept for a backward pass
            rows = max(1, MOST_HIDDEN // max(1, len(h) * h.shape[1] * of_s.shape[2]))
        parts = [
            self.value(self.activation(part.unsqueeze(2) + of_h.unsqueeze(1))).squeeze(3)
            for part in of_s.split(rows, 1)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class FeedForwardScore(AdditiveScore):
    """a_tl = v · ReLU(W s_t + Q h_l + b) + c; without s, the paper's classifier (section 2.4)."""

    activation = staticmethod(torch.relu)


class ConvolutionScore(ScoreFunction):
    """a_tl = s_t · k_l, where k is a convolution of width 3 over the encoder states (Allamanis et al. 2016)."""

    def __init__(self, state: int, encoding: int, hidden: int) -> None:
        super().__init__(state, encoding, hidden)
        self.keys = nn.Conv1d(encoding, state or 1, 3, padding=1)

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> Tensor:
        if not h.shape[1]:  # torch refuses to convolve nothing
            return h.new_zeros(len(h), 1 if s is None else s.shape[1], 0)
        if mask is not None:
            h = h * mask.unsqueeze(2)  # the last token's key must not depend on padding
        keys: Any = self.keys(h.transpose(1, 2))
        return keys if s is None else torch.bmm(s, keys)


class Normalizer(nn.Module, ABC):
    """A normalizer; the scores of a row give the weights of that row.

    Args:
        heads: K, for parameters that each head has of its own.
        parameter: the number in the mechanism's name, if it takes one
            (:data:`alignkit.neural.settings.NORMALIZERS`).
    """

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__()
        self.parameter: Any = parameter

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Weights of scores.

        Args:
            scores: (B, K, T, L); L may be 0.
            mask: (B, L), True where there is a token; None if nothing is padded.

        Returns:
            (B, K, T, L), 0 where padded.
        """
        if not scores.shape[-1]:
            return scores
        return self.weights(scores if mask is None else scores.masked_fill(~mask[:, None, None], float("-inf")))

    @abstractmethod
    def weights(self, scores: Tensor) -> Tensor:
        """The weights of scores (B, K, T, L), L >= 1, which are minus infinity where padded."""

    @abstractmethod
    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor | None:
        """The derivatives in the scores from those in the weights, each (..., L); None if they are 0.

        The weights are those in evaluation mode. Saliency uses this in place of autograd.
        """


class Entmax(Normalizer):
    """Entmax with a given alpha, by bisection (Peters et al. 2019): sparsemax at 2, softmax towards 1.

    Its relatives are those of the ``entmax`` package of its authors (https://github.com/deep-spin/entmax).

    Attributes:
        alpha: a number, or (K, 1, 1) with one for every head.
    """

    @property
    def alpha(self) -> Any:
        return self.parameter

    def weights(self, scores: Tensor) -> Tensor:
        # Each iteration halves the interval of the threshold, which is at most 1 wide.
        iterations = 50 if scores.dtype == torch.float64 else 26
        return entmax_bisect(scores, self.alpha, -1, iterations)

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor:
        """The Jacobian is diag(q) - q q' / sum(q) with q = p^(2 - alpha) on the support (Peters et al. 2019)."""
        q = torch.where(weights > 0, weights.clamp_min(torch.finfo(weights.dtype).tiny) ** (2 - self.alpha), 0.0)
        mean = (q * by_weight).sum(-1, keepdim=True) / q.sum(-1, keepdim=True)
        return q * (by_weight - mean)


class Softmax(Entmax):
    """exp(a_l) / sum over k of exp(a_k)."""

    alpha = 1.0

    def weights(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores, -1)


class Sparsemax(Entmax):
    """The Euclidean projection of the scores onto the simplex (Martins and Astudillo 2016)."""

    alpha = 2.0

    def weights(self, scores: Tensor) -> Tensor:
        return sparsemax(scores, -1)


class Entmax15(Entmax):
    """Entmax with alpha = 1.5, exact by sorting (Peters et al. 2019)."""

    alpha = 1.5

    def weights(self, scores: Tensor) -> Tensor:
        return entmax15(scores, -1)


class LearnedEntmax(Entmax):
    """Entmax with an alpha between 1 and 2 that each head learns, from about 1.5 (Correia et al. 2019)."""

    def __init__(self, heads: int, parameter: float | None) -> None:
        super().__init__(heads, parameter)
        self.raw_alpha = nn.Parameter(torch.zeros(heads))

    @property
    def alpha(self) -> Tensor:
        # Not below 1.01, where the powers of 1 / (alpha - 1) leave float32's range.
        return 1.01 + 0.99 * torch.sigmoid(self.raw_alpha)[:, None, None]


class Sigmoid(Normalizer):
    """1 / (1 + exp(-a_l)), each weight by itself; rows do not sum to 1."""

    def weights(self, scores: Tensor) -> Tensor:
        return torch.sigmoid(scores)

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> Tensor:
        return weights * (1 - weights) * by_weight


class StraightThrough(Normalizer):
    """Hard attention, weight 1 at the largest score and 0 elsewhere, with the gradient of softmax (Bengio et al.
    2013)."""

    def weights(self, scores: Tensor) -> Tensor:
        return self.trained(scores) if self.training else one_at(scores.argmax(-1), scores)

    def trained(self, scores: Tensor) -> Tensor:
        """The weights in training mode, of scores that are minus infinity where padded."""
        soft = torch.softmax(scores, -1)
        return one_at(scores.argmax(-1), scores) + (soft - soft.detach())

    def pull_back(self, weights: Tensor, by_weight: Tensor) -> None:
        return None


def one_at(places: Tensor, scores: Tensor) -> Tensor:
    """Weight 1 at the places (...), as (..., L)."""
    return one_hot(places, scores.shape[-1]).to(scores.dtype)


class Gumbel(StraightThrough):
    """Hard attention by perturb and MAP: the largest score after Gumbel noise, which is a sample of softmax.

    The gradient is that of the softmax of the perturbed scores divided by the temperature, ``parameter``, straight
    through (Jang et al. 2017; for structures, Corro and Titov 2019).
    """

    def trained(self, scores: Tensor) -> Tensor:
        noise = -torch.empty_like(scores).exponential_().clamp_min_(torch.finfo(scores.dtype).tiny).log_()
        return super().trained((scores + noise) / self.parameter)


class Reinforce(StraightThrough):
    """Hard attention by samples of softmax; their gradient, the score-function estimator, comes from
    :func:`score_function_loss`.

    Attributes:
        log_probability: (B, K, T), of the last samples, in training mode.
    """

    log_probability: Tensor | None = None

    def trained(self, scores: Tensor) -> Tensor:
        logs = torch.log_softmax(scores, -1)
        places = torch.multinomial(logs.detach().exp().flatten(0, -2), 1).view(logs.shape[:-1])
        self.log_probability = logs.gather(-1, places.unsqueeze(-1)).squeeze(-1)
        return one_at(places, scores)


def samplers(network: nn.Module) -> Iterator[Reinforce]:
    """The normalizers of a network that need :func:`score_function_loss`."""
    return (module for module in network.modules() if isinstance(module, Reinforce))


def score_function_loss(network: nn.Module, losses: Tensor, places: Tensor) -> Tensor:
    """0, with the gradient of the score-function estimator (REINFORCE), to add to the mean of the losses.

    Its gradient is the mean of (loss_n - b_n) grad log p(z_n), where z_n is the position that was sampled for
    token n; the baseline b_n is the mean loss of the other tokens of the batch, which z_n does not reach, so that
    the estimate has no bias (Williams 1992; Xu et al. 2015).

    Args:
        network: one for which :func:`samplers` finds something, after the forward pass in training mode.
        losses: (N,), of the tokens whose attention was sampled, nats; each depends on its own sample only.
        places: int64 (N,), their indices in flattened (B, T) arrays.
    """
    values = losses.detach()
    advantage = values - (values.sum() - values) / max(len(values) - 1, 1)
    total = losses.new_zeros(())
    for sampler in samplers(network):
        if sampler.log_probability is None:  # uniform attention took its place
            continue
        logs = sampler.log_probability.sum(1).flatten()[places]
        total = total + (advantage * logs).mean()
        sampler.log_probability = None
    return total - total.detach()


class Attention(nn.Module, ABC):
    """An attention, which gives decoder states their contexts and weights over encoder states."""

    #: whether gradients have the same bits at any number of threads; otherwise training computes them on one
    exact = False

    @abstractmethod
    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The contexts that the decoder sees, and their weights. Each row t depends on s_t and h alone.

        Args:
            s: (B, T, H).
            h: (B, L, D).
            mask: (B, L), True where there is a token; None if nothing is padded.

        Returns:
            contexts (B, T, D), or (B, 1, D) if they are the same for all t: the weighted means of h; and weights
            (B, T, L), 0 where padded; the means of the heads' if there are several.
        """

    def head_weights(self, s: Tensor, h: Tensor, mask: Tensor | None) -> Tensor:
        """The weights of the K heads, (B, K, T, L); arguments as in :meth:`forward`."""
        return self(s, h, mask)[1].unsqueeze(1)


#: The derivatives of T outputs: in s_t, (B, T, H), or None if they are 0; and the terms of those in the encoder's
#: states: that of output t in h_l is the sum of weights[t, l] · directions[t] over pairs of weights (B, T, L) and
#: directions (B, T, D).
Derivatives = tuple[Tensor | None, list[tuple[Tensor, Tensor]]]


class ComposedAttention(Attention):
    """An attention whose scores a normalizer turns into weights.

    Args:
        score: the score function.
        normalizer: the normalizer.
    """

    def __init__(self, score: ScoreFunction, normalizer: Normalizer) -> None:
        super().__init__()
        self.score, self.normalizer = score, normalizer
        self.by_query = isinstance(score, QueryScore) and type(score).forward is QueryScore.forward
        self.exact = self.by_query and isinstance(normalizer, Softmax)

    def forward(self, s: Tensor | None, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`Attention.forward`; ``s`` may be None if the score function does without (T is then 1)."""
        score: Any = self.score
        if s is not None and self.exact:
            return dot_product_attention(score.queries(s), h, mask)
        weights = self.normalizer(score(s, h, mask).unsqueeze(1), mask).squeeze(1)
        return torch.bmm(weights, h), weights

    def derivatives(self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor) -> Derivatives:
        """The derivatives of T outputs in the states, given those in their contexts; the score is a query's.

        They are written out, for saliency to use in place of autograd.

        Args:
            s, h: as in :meth:`forward`, nothing padded.
            weights: (B, T, L), from :meth:`forward`.
            by_context: (B, T, D), the derivative of output t in context t.

        Returns:
            the derivatives in s_t, (B, T, H), or None if they are 0; and the terms of those in h_l.
        """
        score: Any = self.score
        with one_thread(s.device):
            by_weight = torch.bmm(by_context, h.transpose(1, 2))
            # A dimension for the head, whose parameters the normalizer may have.
            by_score = self.normalizer.pull_back(weights.unsqueeze(1), by_weight.unsqueeze(1))
            if by_score is None:
                return None, [(weights, by_context)]
            by_score = by_score.squeeze(1)
            by_query = torch.bmm(by_score, h)
        return score.pull_back(by_query), [(weights, by_context), (by_score, score.queries(s))]


def dot_product_attention(query: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Softmax attention by scores a_tl = query_t · h_l: contexts (B, T, D) and weights (B, T, L).

    Args:
        query: (B, T, D).
        h, mask: as in :meth:`Attention.forward`.
    """
    scores = torch.bmm(query, h.transpose(1, 2))
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
    weights = SoftmaxFunction.apply(scores)
    return torch.bmm(weights, h), weights


class SoftmaxFunction(torch.autograd.Function):
    """Softmax of the last dimension. The bits of torch's own gradient depend on the number of threads."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = torch.softmax(scores, -1)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return weights * (grads[0] - (grads[0] * weights).sum(-1, keepdim=True))


class UniformAttention(Attention):
    """alpha = 1/L regardless of the states; the attention of the network that gives beta_uf."""

    exact = True

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = uniform_weights(h, mask)
        return torch.bmm(weights, h), weights.expand(-1, s.shape[1], -1)

    def derivatives(self, s: Tensor, h: Tensor, weights: Tensor, by_context: Tensor) -> Derivatives:
        """As :meth:`ComposedAttention.derivatives`."""
        return None, [(weights, by_context)]


def uniform_weights(h: Tensor, mask: Tensor | None) -> Tensor:
    """1/L where there is a token, (B, 1, L); arguments as :meth:`Attention.forward`."""
    batch, length = h.shape[:2]
    if mask is None:
        return h.new_full((batch, 1, length), 1.0 / max(length, 1))
    weights = mask.to(h.dtype)
    return (weights / weights.sum(1, keepdim=True)).unsqueeze(1)


class MultiHeadAttention(Attention):
    """K heads: head k scores Q_k s_t against K_k h_l, and its context is the weighted mean of V_k h_l.

    The contexts of the heads, D/K numbers each, stand side by side.

    Args:
        mechanism: of all heads, of states and encoder states of D/K numbers; None for uniform weights.
        state: H, the size of a decoder state.
        encoding: D, the size of an encoder state, a multiple of K.
        heads: K.
    """

    def __init__(self, mechanism: Mechanism | None, state: int, encoding: int, heads: int) -> None:
        super().__init__()
        if encoding % heads:
            problem = f"encoder states of {encoding} numbers cannot be divided among {heads} heads"
            raise AlignkitError(f"network: {problem}")
        own = encoding // heads
        parts = None if mechanism is None else score_and_normalizer(mechanism, own, own, own, heads)
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, encoding) for size in (state, encoding, encoding))
        self.score = None if parts is None else parts[0]
        self.normalizer = None if parts is None else parts[1]

    def head_weights(self, s: Tensor, h: Tensor, mask: Tensor | None, uniform: bool = False) -> Tensor:
        """As :meth:`Attention.head_weights`; if ``uniform``, 1/L in place of the learned weights."""
        if uniform or self.score is None or self.normalizer is None:
            return uniform_weights(h, mask).unsqueeze(1).expand(-1, self.heads, s.shape[1], -1)
        queries, keys = (of_heads(x, self.heads).flatten(0, 1) for x in (self.query(s), self.key(h)))
        repeated = None if mask is None else mask.repeat_interleave(self.heads, 0)
        return self.normalizer(self.score(queries, keys, repeated).unflatten(0, (-1, self.heads)), mask)

    def forward(self, s: Tensor, h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        weights = self.head_weights(s, h, mask)
        return contexts_of_heads(weights, self.value(h)), weights.mean(1)


def of_heads(x: Tensor, heads: int) -> Tensor:
    """(B, K, N, D/K): the parts of states (B, N, D) that belong to each head."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def contexts_of_heads(weights: Tensor, values: Tensor) -> Tensor:
    """(B, T, D): the weighted means of values (B, L, D) with the weights (B, K, T, L), head by head."""
    return torch.matmul(weights, of_heads(values, weights.shape[1])).transpose(1, 2).flatten(2)


def new_attention(name: str, state: int, encoding: int, heads: int = 1) -> Attention:
    """An attention with random weights, drawn from torch's global generator.

    Args:
        name: ``uniform``, or of a mechanism.
        state: H, the size of a decoder state, and of hidden layers of the score function.
        encoding: D, the size of an encoder state.
        heads: K; from two on, each has maps of its own from states, encoder states and to contexts of D/K numbers.

    Raises:
        AlignkitError: there is no such attention, or the sizes do not fit it.
    """
    mechanism = parse_attention("network", name)
    if mechanism is None:
        return UniformAttention()
    if heads > 1:
        return MultiHeadAttention(mechanism, state, encoding, heads)
    return ComposedAttention(*score_and_normalizer(mechanism, state, encoding, state))


def score_and_normalizer(
    mechanism: Mechanism, state: int, encoding: int, hidden: int, heads: int = 1
) -> tuple[ScoreFunction, Normalizer]:
    """The two parts of a mechanism; sizes as in :class:`ScoreFunction`, heads as in :class:`Normalizer`."""
    score = imported(SCORE_FUNCTIONS[mechanism.score])(state, encoding, hidden)
    return score, imported(NORMALIZERS[mechanism.normalizer].place)(heads, mechanism.parameter)
