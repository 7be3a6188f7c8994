"""What a translation costs a language model some of whose attention heads are switched off.

The heads that align best are switched off together, beside as many random ones: if alignment is what the model
translates by, its loss rises more. What the heads that are left attend to shows whether others take over.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from alignkit.errors import AlignkitError, abbreviated, check_known
from alignkit.lab.experiments import Figure
from alignkit.lab.heads import hugging_face
from alignkit.lab.heads.ranking import BestLinkCounter, heads_of_text, links_to_rank_by
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.links.links import GoldLinks
from alignkit.metrics.intervals import RESAMPLES, percentile_interval, ratio, resampled_sums
from alignkit.metrics.protocol import MetricSettings
from alignkit.neural.devices import pick_device
from alignkit.pipeline.settings import ReadSettings
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext, lines_of
from alignkit.text.pairs import read_text
from alignkit.types import PathLike, Progress

Head = tuple[int, int]  #: layer and head, counted from 0
WHOLE, NO_SOURCE = "whole model", "without the source"
BEST, SAME_LAYERS, ANY = "best", "others of the same layers", "any others"
ZERO, MEAN = "zero", "mean"
#: What a head's output is set to: zero, or its mean over all tokens of the text.
FILLS = (ZERO, MEAN)
SIZES = (1, 2, 3, 5, 8, 16)  #: how many heads are switched off together
DRAWS = 4  #: of random heads
TRIES = 100  #: to draw a set of random heads that was not drawn before


class HeadSet(NamedTuple):
    """Heads that are switched off together.

    Attributes:
        kind: the whole model, without the source, the best, others of the same layers, or any others.
        size: how many heads; 0 of the first two kinds.
        fill: one of :data:`FILLS`.
        draw: of random heads, counted from 0.
        heads: layer and head of each.
    """

    kind: str
    size: int = 0
    fill: str = ZERO
    draw: int = 0
    heads: tuple[Head, ...] = ()


class AblatedReading(NamedTuple):
    """What a model makes of M sentence pairs.

    Attributes:
        losses: float64 (M,), nats of the target tokens, summed.
        tokens: int64 (M,), how many there are.
        counts: float64 (2, H, M, 3), those of :class:`BestLinkCounter` of each head, as it is and shifted.
    """

    losses: np.ndarray
    tokens: np.ndarray
    counts: np.ndarray


def head_counts(heads: AttentionHeads, counter: BestLinkCounter) -> np.ndarray:
    """float64 (2, H, M, 3): links, sure and possible links of each head, as it is and shifted."""
    both = heads.on_words, heads.shifted.on_words
    return np.stack([[counter.count(values) for values in each.values] for each in both])


def rank_by_hits(
    heads: Sequence[Head], counter: BestLinkCounter, counts: np.ndarray, part: Any = slice(None)
) -> list[Head]:
    """The heads by their hits in some of the pairs, the better of shifted and not, best first."""
    hits = np.nan_to_num(counter.hits(counts, part), nan=-1).max(axis=0)
    return [heads[k] for k in np.argsort(-hits, kind="stable")]


def plan_sets(
    ranked: Sequence[Head],
    sizes: Sequence[int] = SIZES,
    draws: int = DRAWS,
    *,
    kinds: Sequence[str] = (BEST, SAME_LAYERS, ANY),
    fill: str = ZERO,
    seed: int = 0,
) -> list[HeadSet]:
    """The k best heads for each size k, and random ones to hold them against.

    Random heads of the same layers are as many of each layer as are among the best; any others are of all layers.
    Both are others than the best, as long as there are others. Each draw is another set, so that there may be
    fewer than asked for; the first do not depend on how many are.

    Args:
        ranked: all heads, best first.
        sizes: k; those larger than the number of heads are left out.
        draws: of each kind of random heads.
        kinds: which to plan.
        fill: one of :data:`FILLS`.
        seed: of the draws.
    """
    check_known(fill, FILLS, "way to switch a head off")
    planned = []
    for size in (size for size in sizes if size <= len(ranked)):
        best = ranked[:size]
        groups: dict[str, Any] = {SAME_LAYERS: Counter(layer for layer, _ in best), ANY: {None: size}}
        for kind in kinds:
            found = [tuple(best)] if kind == BEST else _random_sets(ranked, size, draws, groups[kind], seed)
            planned += [HeadSet(kind, size, fill, draw, heads) for draw, heads in enumerate(found)]
    return planned


def _random_sets(
    ranked: Sequence[Head], size: int, draws: int, counts: Mapping[int | None, int], seed: int
) -> list[tuple[Head, ...]]:
    """Random sets of so many heads of each layer (None: of all), each but once, and not the best."""
    best = ranked[:size]
    rng, known = np.random.default_rng([seed, size, None in counts]), [tuple(sorted(best))]
    while len(known) <= draws:
        for _ in range(TRIES):
            drawn: list[Head] = []
            for layer, count in counts.items():
                pool = [ranked[k] for k in rng.permutation(len(ranked)) if layer in (None, ranked[k][0])]
                drawn += sorted(pool, key=lambda head: head in best)[:count]  # the best last
            if tuple(sorted(drawn)) not in known:
                known.append(tuple(sorted(drawn)))
                break
        else:
            break  # there is no other
    return known[1:]


@contextmanager
def at_heads(model: Any, change: Callable[[int, torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Within the block, the outputs of the heads of a layer, (B, T, H, d), are what a function makes of them."""
    width = model.config.get_text_config().num_attention_heads
    with ExitStack() as hooks:
        for layer, attention in hugging_face.attention_layers(model):

            def hook(module: Any, given: Any, layer: int = layer) -> Any:
                return change(layer, given[0].unflatten(-1, (width, -1))).flatten(-2), *given[1:]

            hooks.callback(hugging_face.output_matrix(attention).register_forward_pre_hook(hook).remove)
        yield


class AblatedReader:
    """A decoder-only model that reads the same sentence pairs again, with other heads switched off.

    Args:
        model, tokenizer: of transformers; the model is moved to the device and set to evaluation.
        bitext: M pairs of whitespace words, each with words on both sides.
        gold: their links.
        template: the prompt, with ``{source}`` and after it ``{target}``.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the template lacks a side, a side is blank, or a prompt is too long.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        bitext: Bitext,
        gold: GoldLinks,
        *,
        template: str = hugging_face.TEMPLATE,
        device: str = "auto",
    ) -> None:
        self.device = pick_device(device)
        self.model, self.tokenizer = self.loaded = model.to(self.device).eval(), tokenizer
        self.counter = BestLinkCounter(gold, bitext.shapes)
        self.template, self.lines = template, list(zip(*lines_of(bitext), strict=True))
        self.prompts = self._prompts()
        hugging_face.check_lengths(model, "prompt", {m: one.ids for m, one in enumerate(self.prompts)})
        maps, _ = hugging_face.read_prompts(*self.loaded, self.prompts[:1], self.device)
        self.heads = [(layer, head) for layer, (weights,) in maps.items() for head in range(len(weights))]

    def _prompts(self, **how: Any) -> list[hugging_face.Prompt]:
        found = [hugging_face.prompt(self.tokenizer, self.template, *pair, **how) for pair in self.lines]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            raise AlignkitError(f"pair {found.index(None) + 1} has a blank side")
        return known

    @cached_property
    def means(self) -> dict[int, torch.Tensor]:
        """Float32 (H, d) of each layer: the mean output of its heads over all tokens of the prompts."""
        sums: dict[int, Any] = defaultdict(float)

        def add(layer: int, outputs: torch.Tensor) -> torch.Tensor:
            sums[layer] = sums[layer] + outputs.sum(dim=(0, 1), dtype=torch.float32)  # the model may have 16 bits
            return outputs

        with at_heads(self.model, add):
            for one in self.prompts:  # one at a time, without padding
                hugging_face.read_prompts(*self.loaded, [one], self.device)
        count = sum(len(one.ids) for one in self.prompts)
        return {layer: summed / count for layer, summed in sums.items()}

    def read(self, chosen: HeadSet) -> AblatedReading:
        """Losses and best links of all pairs with these heads switched off."""
        has_source = chosen.kind != NO_SOURCE
        prompts = self.prompts if has_source else self._prompts(without_source=True)
        losses, tokens = np.zeros(len(prompts)), np.array([len(one.places) for one in prompts])
        pairs: list[Any] = [None] * len(prompts)
        means = self.means if chosen.fill == MEAN else None

        def switch_off(layer: int, outputs: torch.Tensor) -> torch.Tensor:
            off = [head for each, head in chosen.heads if each == layer]
            outputs = outputs.clone()
            outputs[..., off, :] = 0.0 if means is None else means[layer][off]
            return outputs

        sizes = {m: len(one.ids) for m, one in enumerate(prompts)}
        with at_heads(self.model, switch_off):
            for batch in hugging_face.batches(sizes, hugging_face.PROMPTS, None):
                some = [prompts[m] for m in batch]
                maps, logits = hugging_face.read_prompts(*self.loaded, some, self.device, with_logits=True)
                targets = np.concatenate([np.array(one.ids)[one.places] for one in some])
                wanted = torch.tensor(targets, device=self.device)
                each = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="none").double()
                losses[batch] = np.add.reduceat(each.cpu().numpy(), np.cumsum([0, *tokens[batch[:-1]]]))
                for k, m in enumerate(batch):
                    pairs[m] = hugging_face.stacked([layer[k] for layer in maps.values()])
        if not has_source:
            return AblatedReading(losses, tokens, np.zeros((2, 0, len(prompts), 3)))
        sides = [one.columns for one in prompts], [one.rows for one in prompts]
        counts = self.counter.shapes[:, ::-1].T.tolist()
        words: Any = tuple(list(zip(*each, strict=True)) for each in zip(sides, counts, strict=True))
        return AblatedReading(losses, tokens, head_counts(AttentionHeads.from_pairs(pairs, words), self.counter))


def best_left(
    counter: BestLinkCounter, counts: np.ndarray, heads: Sequence[Head], off: Sequence[Head]
) -> np.ndarray:
    """float64 (M, 3): the counts of the best head that is not switched off, shifted or not.

    It is chosen on every other pair and counted on the rest, and vice versa.

    Args:
        counter: of the pairs.
        counts: (2, H, M, 3) of all heads.
        heads: which they are.
        off: those that are switched off.
    """
    left = [k for k, head in enumerate(heads) if head not in set(off)]
    found = np.zeros(counts.shape[2:])
    if not left:
        return found
    rows = counts[:, left].reshape(-1, *found.shape)
    for one, other in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        best = int(np.argmax(np.nan_to_num(counter.hits(rows, one), nan=-1)))
        found[other] = rows[best, other]
    return found


def resampled_losses(
    readings: Mapping[HeadSet, AblatedReading], seed: int = 0, resamples: int = RESAMPLES
) -> dict[tuple[str, int, str], np.ndarray]:
    """The loss of each kind, size and fill, nats a target token: the mean over the draws of random heads.

    Returns:
        float64 (1 + B,) of each: the loss itself, and those of B resamples of the sentence pairs and of the draws.
        All have the same resamples of pairs, so that differences are taken element by element.
    """
    tokens = next(iter(readings.values())).tokens
    columns = np.stack([tokens, *(each.losses for each in readings.values())], axis=1)
    sums = np.concatenate([columns.sum(axis=0)[None], resampled_sums(columns, seed, resamples)])
    # Without the source, the target may begin within another token.
    losses = ratio(sums[:, 1:], sums[:, :1] * [each.tokens.sum() / tokens.sum() for each in readings.values()])
    rng, found = np.random.default_rng(seed), {}
    for key, places in _by_kind(readings).items():
        picks = rng.integers(len(places), size=(1 + resamples, len(places)))
        picks[0] = np.arange(len(places))
        found[key] = np.take_along_axis(losses[:, places], picks, axis=1).mean(axis=1)
    return found


def _by_kind(readings: Mapping[HeadSet, AblatedReading]) -> dict[tuple[str, int, str], list[int]]:
    """The places of the draws of each kind, size and fill."""
    found: dict[tuple[str, int, str], list[int]] = {}
    for k, each in enumerate(readings):
        found.setdefault((each.kind, each.size, each.fill), []).append(k)
    return found


def ablation_table(
    readings: Mapping[HeadSet, AblatedReading],
    counter: BestLinkCounter,
    heads: Sequence[Head],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> pd.DataFrame:
    """What is measured of each kind, size and fill, with 95 % intervals of :func:`resampled_losses`.

    Args:
        readings: of the whole model, without the source, and of sets of heads.
        counter: of the pairs.
        heads: of the model, in the order of the readings' counts.
        seed, resamples: of the bootstrap.

    Returns:
        kind, size, fill, and the number of draws;
        loss, cost (more than the whole model's) and best_more (what the best cost more than these random heads),
        nats a target token; hits and aer of the best head that is left (:func:`best_left`), and gained, those hits
        less the hits of the best of the same heads in the whole model. Each has ``_low`` and ``_high``.
    """
    losses = resampled_losses(readings, seed, resamples)
    sets, results = list(readings), list(readings.values())
    whole = readings[HeadSet(WHOLE)].counts
    rows = []
    for (kind, size, fill), places in _by_kind(readings).items():
        row: dict[str, Any] = {"kind": kind, "size": size, "fill": fill, "draws": len(places)}
        loss, best = losses[kind, size, fill], losses.get((BEST, size, fill))
        row |= _measured("loss", loss) | _measured("cost", loss - losses[WHOLE, 0, ZERO])
        if kind in (SAME_LAYERS, ANY) and best is not None:
            row |= _measured("best_more", best - loss)
        if kind != NO_SOURCE:
            kept = [(results[k].counts, sets[k].heads) for k in places]
            now = np.mean([best_left(counter, counts, heads, off) for counts, off in kept], axis=0)
            before = np.mean([best_left(counter, whole, heads, off) for _, off in kept], axis=0)
            columns = np.concatenate([counter.totals, now, before], axis=1)
            sums = np.concatenate([columns.sum(axis=0)[None], resampled_sums(columns, seed, resamples)])
            hits, aer = counter.hits_and_aer(sums)
            row |= _measured("hits", hits[:, 0]) | _measured("aer", aer[:, 0])
            row |= _measured("gained", hits[:, 0] - hits[:, 1])
        rows.append(row)
    return pd.DataFrame(rows)


def _measured(name: str, values: np.ndarray) -> dict[str, float]:
    """A statistic (1 + B,) and its interval."""
    low, high = percentile_interval(values[1:])
    return {name: float(values[0]), f"{name}_low": low, f"{name}_high": high}


def ablate_heads_of_file(
    path: PathLike,
    source: PathLike,
    target: PathLike | None = None,
    *,
    gold: PathLike | None = None,
    model: PathLike | None = None,
    sizes: Sequence[int] = SIZES,
    draws: int = DRAWS,
    fill: str = ZERO,
    device: str = "auto",
    reading: ReadSettings | None = None,
    settings: MetricSettings | None = None,
    progress: Progress | None = None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Rank heads on the odd lines of a text, and read its even lines without the best, and without random ones.

    Args:
        path: the attention of a decoder-only model for the text, which names the model.
        source, target, gold, model: as of :func:`alignkit.lab.heads.ranking.rank_heads_of_file`.
        sizes, draws, fill: as of :func:`plan_sets`.
        device: as of :class:`AblatedReader`.
        reading: how to read the text.
        settings: of the bootstrap; the seed is also that of the random heads.
        progress: called after each set of heads.

    Returns:
        table: of :func:`ablation_table`, of the even lines.
        facts: the number of ``pairs`` read and of their target ``tokens``; ``made``, how the attention was made;
            and all heads as they are ``ranked`` by the odd lines, [layer, head], best first.

    Raises:
        AlignkitError: a file cannot be read or is not of this text, the model is not decoder-only or lacks a head
            of the file, it has fewer heads than a size that is none of :data:`SIZES`, the odd lines have no links,
            or fewer than two even lines have words on both sides.
    """
    settings, reading = settings or MetricSettings(), reading or ReadSettings()
    bitext = read_text(source, target, **vars(reading))
    heads = heads_of_text(path, bitext)
    if too_many := [size for size in sizes if size > len(heads.heads) and size not in SIZES]:
        raise AlignkitError(f"{too_many[0]} heads cannot be switched off; the file has {len(heads.heads)}")
    if "model" not in heads.made:
        raise AlignkitError("the attention file names no language model; write it with `alignkit attention`")
    if "template" not in heads.made:
        problem = f"{abbreviated(heads.made['model'])} is an encoder-decoder"
        raise AlignkitError(f"only heads of decoder-only models can be switched off; {problem}")
    links, _ = links_to_rank_by(bitext, gold, model, settings.threads)
    odd, even = np.arange(0, len(bitext), 2), np.arange(1, len(bitext), 2)
    even = even[bitext.shapes[even].min(axis=1) > 0]
    counter = BestLinkCounter(links, bitext.shapes)
    if not counter.totals[odd, 0].sum() or len(even) < 2:
        raise AlignkitError("heads are ranked by links of the odd lines, and judged on two even lines or more")
    ranked = rank_by_hits(heads.heads, counter, head_counts(heads, counter), odd)
    pretrained = hugging_face.load_pretrained(heads.made["model"])
    judged, template = (bitext.take(even), links.take(even)), heads.made["template"]
    reader = AblatedReader(*pretrained, *judged, template=template, device=device)
    if not set(heads.heads) <= set(reader.heads):
        raise AlignkitError(f"the attention file has heads that its model has not: {heads.described}")
    sets = [HeadSet(WHOLE), HeadSet(NO_SOURCE), *plan_sets(ranked, sizes, draws, fill=fill, seed=settings.seed)]
    readings = {}
    for k, one in enumerate(sets):
        readings[one] = reader.read(one)
        (progress or no_progress)(k + 1, len(sets), "sets of heads")
    resampling = {"seed": settings.seed, "resamples": settings.resamples}
    table = ablation_table(readings, reader.counter, reader.heads, **resampling)
    tokens = int(readings[HeadSet(WHOLE)].tokens.sum())
    facts = {"pairs": len(even), "tokens": tokens, "made": dict(heads.made)}
    return table, facts | {"ranked": [list(head) for head in ranked]}


def draw_ablation(table: pd.DataFrame, figure: Figure) -> None:
    """Draw the losses of a table of one fill, and the hits of the best head left, by the number of heads."""
    labels = {"loss": "loss, nats a target token", "hits": "hits of the best head left"}
    for axes, (name, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        axes.axhline(table.loc[table["kind"] == NO_SOURCE, name].iloc[0], color="0.5", ls=":", label=NO_SOURCE)
        for k, kind in enumerate((BEST, SAME_LAYERS, ANY)):
            part = table[table["kind"].isin([WHOLE, kind])].sort_values("size")
            axes.plot(part["size"], part[name], color=f"C{k}", marker=".", label=kind)
            axes.vlines(part["size"], part[f"{name}_low"], part[f"{name}_high"], color=f"C{k}")
        axes.set(xlabel="heads switched off", ylabel=label, xticks=sorted(set(table["size"])))
    axes.legend(frameon=False)
