"""Heads of small untrained language models, made here, switched off; and counts and losses that are planted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain

import numpy as np
import pandas as pd
import pytest
import torch
from pandas.testing import assert_frame_equal

from alignkit.errors import AlignkitError
from alignkit.lab.heads import hugging_face
from alignkit.lab.heads.ablation import (
    ANY,
    BEST,
    MEAN,
    NO_SOURCE,
    SAME_LAYERS,
    WHOLE,
    ZERO,
    AblatedReader,
    AblatedReading,
    HeadSet,
    ablation_table,
    best_left,
    draw_ablation,
    plan_sets,
    rank_by_hits,
    resampled_losses,
)
from alignkit.lab.heads.hugging_face import Prompt, load_pretrained, translation_attention
from alignkit.lab.heads.ranking import BestLinkCounter
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.links.links import GoldLinks, Links
from alignkit.support.packages import is_here
from alignkit.text.bitext import Bitext
from alignkit_cli.main import run as run_program

from .test_hugging_face import SOURCE, TARGET
from .test_language_models import FAMILIES, HEADS, LAYERS, SHAPE, make_language_model

pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")
TEMPLATE = "Deutsch: {source} English: {target} ."
PAIRS = [(x.split(), y.split()) for x, y in zip(SOURCE, TARGET, strict=True) if x.split() and y.split()][::-1]
ALL = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return make_language_model(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return make_language_model("Llama", tmp_path_factory.mktemp("llama"))


def reader_of(place, **options):
    bitext = Bitext.from_sentences(*zip(*PAIRS, strict=True))
    links = Links.from_lists([[(0, 0), (min(len(x), len(y)) - 1,) * 2] for x, y in PAIRS])
    options = {"template": TEMPLATE, "device": "cpu", **options}
    loaded = place if isinstance(place, tuple) else load_pretrained(place)
    return AblatedReader(*loaded, bitext, GoldLinks(links, links), **options)


def naive_losses(model, tokenizer, *, has_source=True):
    """The loss of each pair by transformers itself, and its number of target tokens."""
    losses, counts = [], []
    for x, y in PAIRS:
        text = TEMPLATE.format(source=" ".join(x) * has_source, target=" ".join(y))
        low = text.index(" ".join(y), text.index("English:"))
        encoded = tokenizer(text, return_offsets_mapping=True)
        spans = [(max(start, low), min(end, low + len(" ".join(y)))) for start, end in encoded["offset_mapping"]]
        inside = [text[start:end].strip() != "" for start, end in spans]
        labels = [token if each else -100 for token, each in zip(encoded["input_ids"], inside, strict=True)]
        with torch.inference_mode():
            loss = model.eval()(torch.tensor([encoded["input_ids"]]), labels=torch.tensor([labels])).loss
        losses.append(float(loss) * sum(inside))
        counts.append(sum(inside))
    return losses, counts


def silenced(folder, heads):
    """A model after the weights of these heads' outputs are made zero, and its tokenizer."""
    model, tokenizer = load_pretrained(folder)
    for layer, head in heads:
        matrix = hugging_face.output_matrix(dict(hugging_face.attention_layers(model))[layer])
        weight, size = matrix.weight.detach(), model.config.hidden_size // HEADS
        weight = weight if type(matrix).__name__ == "Conv1D" else weight.T
        weight[head * size : (head + 1) * size] = 0
    return model, tokenizer


@pytest.mark.parametrize("heads", [(), ((0, 2),), ((0, 0), (1, 1), (1, 3)), tuple(ALL)])
def test_losses_are_those_of_the_model_with_zeros_in_its_output_matrices(folder, heads):
    found = reader_of(folder).read(HeadSet(BEST, len(heads), heads=heads))
    assert found.losses == pytest.approx(naive_losses(*silenced(folder, heads))[0], rel=1e-4)
    whole = reader_of(folder).read(HeadSet(WHOLE))
    assert (np.abs(whole.losses - found.losses) > 1e-3).all() == bool(heads)


@pytest.mark.parametrize("family", ["MiniMax", "Gemma3"])
def test_layers_are_counted_as_the_model_counts_them(llama, family):
    """Of MiniMax every other layer has no attention weights; Gemma 3 has attention that sees, but no text."""
    import transformers

    config = getattr(transformers, f"{family}Config")
    if family == "MiniMax":
        kinds = {"layer_types": ["linear_attention", "full_attention"] * 2, "num_local_experts": 2}
        shape = {**SHAPE, "num_hidden_layers": 4, "num_key_value_heads": 4, "head_dim": 8, "block_size": 8}
        config = config(**shape, **kinds)
    else:
        sight = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28}
        config = config(text_config={**SHAPE, "head_dim": 8}, vision_config=sight)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    layers = model.model.layers if family == "MiniMax" else model.model.language_model.layers
    reader = reader_of((model, load_pretrained(llama)[1]))
    assert sorted({layer for layer, _ in reader.heads}) == ([1, 3] if family == "MiniMax" else [0, 1])
    whole = reader.read(HeadSet(WHOLE)).losses
    found = reader.read(HeadSet(BEST, 1, heads=((1, 2),))).losses
    layers[1].self_attn.o_proj.weight.detach()[:, 16:24] = 0
    assert found == pytest.approx(reader.read(HeadSet(WHOLE)).losses, rel=1e-4)
    assert found != pytest.approx(whole, rel=1e-4)


def test_heads_come_back(llama):
    reader = reader_of(llama)
    before = reader.read(HeadSet(WHOLE))
    reader.read(HeadSet(BEST, 1, heads=((0, 0),)))
    after = reader.read(HeadSet(WHOLE))
    assert (before.losses == after.losses).all()
    assert (before.counts == after.counts).all()
    assert before.tokens.tolist() == [len(one.rows) - 1 for one in reader.prompts]


def test_mean_is_over_all_tokens(llama):
    """The outputs of a layer's heads, by a hook of this test; a text whose tokens are all alike loses nothing."""
    reader = reader_of(llama)
    model, inputs = reader.model, []
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_hook(lambda module, given, output: inputs.append(given[0][0]))
    for one in reader.prompts:
        with torch.inference_mode():
            model(torch.tensor([one.ids]))
    for layer, mean in reader.means.items():
        wanted = torch.cat(inputs[layer : LAYERS * len(PAIRS) : LAYERS]).mean(dim=0)
        assert mean.flatten().tolist() == pytest.approx(wanted.tolist(), abs=1e-5)

    once, often = reader_of(llama), reader_of(llama)
    often.prompts = often.prompts * 60
    for each in (once, often):
        each.model.bfloat16()
    for layer, mean in once.means.items():
        assert torch.allclose(often.means[layer], mean, atol=1e-4)

    reader = reader_of(llama)
    one = reader.prompts[0]
    reader.prompts = [Prompt([7] * len(one.ids), one.columns, one.rows, one.first)] * len(PAIRS)
    shape = [max(one.rows) + 1, max(one.columns) + 1]
    links = GoldLinks(*[Links.from_lists([[(0, 0)]] * len(PAIRS))] * 2)
    reader.counter = BestLinkCounter(links, np.array([shape] * len(PAIRS)))
    on, some = reader.read(HeadSet(WHOLE)), ((0, 2), (1, 1), (1, 3))
    assert reader.read(HeadSet(BEST, 3, MEAN, heads=some)).losses == pytest.approx(on.losses, rel=1e-4)
    assert reader.read(HeadSet(BEST, 3, ZERO, heads=some)).losses != pytest.approx(on.losses, rel=1e-2)


def test_without_the_source(llama):
    """The loss of the target after the template alone."""
    reader = reader_of(llama)
    found = reader.read(HeadSet(NO_SOURCE))
    losses, counts = naive_losses(*reader.loaded, has_source=False)
    assert found.losses == pytest.approx(losses, rel=1e-4)
    assert found.tokens.tolist() == counts


def test_counts_are_of_the_attention_that_the_others_see(llama):
    """In the whole model as `attention` gives it; without layer 0, that of layer 1 is another."""
    reader = reader_of(llama)
    found = reader.read(HeadSet(WHOLE))
    lines = [[" ".join(side) for side in sides] for sides in zip(*PAIRS, strict=True)]
    heads = translation_attention(*load_pretrained(llama), *lines, template=TEMPLATE, device="cpu")
    assert reader.heads == list(heads.heads) == ALL
    for k, each in enumerate((heads.on_words, heads.shifted.on_words)):
        for h in range(len(ALL)):
            assert (found.counts[k, h] == reader.counter.count(each.values[h])).all()
    without = reader.read(HeadSet(BEST, HEADS, heads=tuple((0, head) for head in range(HEADS)))).counts
    assert (without[:, :HEADS] == found.counts[:, :HEADS]).all()
    assert (without[:, HEADS:] != found.counts[:, HEADS:]).any()


def test_random_heads_are_others_in_the_same_layers():
    ranked = [(2, 1), (0, 0), (2, 3), (1, 1), *((layer, head) for layer in range(4) for head in range(4))]
    ranked = list(dict.fromkeys(ranked))
    sets = plan_sets(ranked, (3, 4, 14, 17), 5, seed=4)
    assert {one.size for one in sets} == {3, 4, 14}  # there are 16 heads
    for one in sets:
        best = set(ranked[: one.size])
        assert len(set(one.heads)) == one.size == len(one.heads)
        assert set(one.heads) <= set(ranked)
        if one.kind == BEST:
            assert one.heads == tuple(ranked[: one.size])
        elif one.size < 5:
            assert not best & set(one.heads)
        if one.kind != BEST:
            assert set(one.heads) != best
        if one.kind == SAME_LAYERS:
            assert sorted(layer for layer, _ in one.heads) == sorted(layer for layer, _ in best)
        if one.kind == ANY and one.size == 14:
            assert len(best & set(one.heads)) == 12  # of the two others, both are taken
    few = [one for one in sets if one.size == 3]
    assert [(one.kind, one.draw) for one in few] == [
        (BEST, 0),
        *((kind, k) for kind, count in ((SAME_LAYERS, 3), (ANY, 5)) for k in range(count)),
    ]  # Layer 2 has two others, which is one pair; layer 0 has three
    for kind in (SAME_LAYERS, ANY):
        drawn = [one.heads for one in few if one.kind == kind]
        assert len(set(drawn)) == len(drawn)
        assert drawn == [one.heads for one in plan_sets(ranked, (3,), 9, kinds=(kind,), seed=4)][:5]
        assert drawn != [one.heads for one in plan_sets(ranked, (3,), 5, kinds=(kind,), seed=5)]
    one_layer = plan_sets([(0, head) for head in range(16)], (3,), 3)
    assert len({one.heads for one in one_layer}) == len(one_layer)  # the draws of both kinds differ
    assert not plan_sets([(0, 0), (0, 1)], (2,), 3, kinds=(SAME_LAYERS,))
    with pytest.raises(AlignkitError, match="way to switch a head off"):
        plan_sets(ranked, fill="one")


COUNTER = BestLinkCounter(
    GoldLinks(*[Links.from_lists([[(0, 0), (1, 1)]] * 4)] * 2), np.array([[2, 2]] * 4, np.int32)
)


def counts_of(*hits):
    """Of one pair each: two links by every head, of which so many are right; not shifted, then shifted."""
    right = np.array(hits, float).reshape(2, -1, 4)
    return np.stack([np.full(right.shape, 2.0), right, right], axis=-1)


def test_the_best_that_is_left_is_chosen_on_other_pairs():
    """Head 0.0 is best but off; 0.1 is best on the odd pairs, 0.2 shifted on the even ones."""
    counts = counts_of([[2, 2, 2, 2], [2, 0, 2, 1], [0, 0, 0, 0]], [[0] * 4, [0] * 4, [1, 2, 0, 2]])
    heads = [(0, 0), (0, 1), (0, 2)]
    found = best_left(COUNTER, counts, heads, [(0, 0)])
    assert found[:, 2].tolist() == [1, 0, 0, 1]  # pairs 1 and 3 by 0.2 shifted, pairs 2 and 4 by 0.1
    assert best_left(COUNTER, counts, heads, [])[:, 2].tolist() == [2, 2, 2, 2]
    assert not best_left(COUNTER, counts, heads, heads).any()
    assert rank_by_hits(heads, COUNTER, counts) == [(0, 0), (0, 1), (0, 2)]
    assert rank_by_hits(heads, COUNTER, counts, slice(1, None, 2)) == [(0, 0), (0, 2), (0, 1)]


def test_the_table_has_sums_over_tokens_and_means_over_draws():
    tokens, none = np.array([1, 2, 3, 4]), np.zeros((2, 0, 4, 3))
    same = counts_of([[2] * 4, [0] * 4], [[0] * 4] * 2)
    other = counts_of([[2] * 4, [1] * 4], [[0] * 4] * 2)
    readings = {
        HeadSet(WHOLE): AblatedReading(tokens * 2.0, tokens, same),
        HeadSet(NO_SOURCE): AblatedReading(tokens * 8.0, tokens * 2, none),
        HeadSet(BEST, 1, MEAN, heads=((0, 0),)): AblatedReading(tokens * 3.0, tokens, other),
        HeadSet(SAME_LAYERS, 1, MEAN, 0, heads=((0, 1),)): AblatedReading(tokens * 2.1, tokens, same),
        HeadSet(SAME_LAYERS, 1, MEAN, 1, heads=((0, 1),)): AblatedReading(tokens * 2.5, tokens, same),
    }
    table = ablation_table(readings, COUNTER, [(0, 0), (0, 1)], seed=1, resamples=200).set_index("kind")
    assert table["draws"].to_dict() == {WHOLE: 1, NO_SOURCE: 1, BEST: 1, SAME_LAYERS: 2}
    assert table["loss"].to_dict() == pytest.approx({WHOLE: 2, NO_SOURCE: 4, BEST: 3, SAME_LAYERS: 2.3})
    assert table["cost"].to_dict() == pytest.approx({WHOLE: 0, NO_SOURCE: 2, BEST: 1, SAME_LAYERS: 0.3})
    row = table.loc[SAME_LAYERS]
    assert [row["best_more"], row["best_more_low"], row["best_more_high"]] == pytest.approx([0.7, 0.5, 0.9])
    assert table.loc[BEST, ["loss_low", "loss_high"]].tolist() == pytest.approx([3, 3])
    assert np.isnan(table.loc[BEST, "best_more"])
    # Without 0.0, head 0.1 has half of the links, none in the whole model; without 0.1, head 0.0 has all.
    for name, wanted in {"hits": [1, 0.5, 1], "aer": [0, 0.5, 0], "gained": [0, 0.5, 0]}.items():
        for column in (name, f"{name}_low", f"{name}_high"):
            assert table.loc[[WHOLE, BEST, SAME_LAYERS], column].tolist() == wanted
    if is_here("matplotlib"):
        from matplotlib.figure import Figure

        draw_ablation(table.reset_index(), figure := Figure())
        for axes, name in zip(figure.axes, ("loss", "hits"), strict=True):
            shown = [line.get_ydata().tolist() for line in axes.lines[1:3]]
            assert shown == [table.loc[[WHOLE, kind], name].tolist() for kind in (BEST, SAME_LAYERS)]


def test_intervals_are_of_resampled_pairs():
    """Two runs of unequal pairs: the loss is a ratio of sums, and the resamples are those of all runs alike."""
    tokens, rng = np.array([1, 9, 2, 5] * 10), np.random.default_rng(0)
    first, none = rng.uniform(1, 4, 40) * tokens, np.zeros((2, 0, 40, 3))
    readings = {
        HeadSet(WHOLE): AblatedReading(first, tokens, none),
        HeadSet(BEST, 1): AblatedReading(first + tokens, tokens, none),
    }
    found = resampled_losses(readings, seed=3, resamples=500)
    whole, best = found[WHOLE, 0, ZERO], found[BEST, 1, ZERO]
    assert len(whole) == 501
    assert whole[0] == pytest.approx(first.sum() / tokens.sum())
    assert best - whole == pytest.approx(1)
    picks = rng.integers(40, size=(4000, 40))
    spread = (first[picks].sum(axis=1) / tokens[picks].sum(axis=1)).std()
    assert whole[1:].std() == pytest.approx(spread, rel=0.15)


@pytest.fixture(scope="module")
def files(llama, tmp_path_factory):
    """Text of five lines, one of them blank, with gold links, and its attention."""
    place = tmp_path_factory.mktemp("files")
    pairs = [PAIRS[0], PAIRS[1], PAIRS[2], ([], ["x"]), PAIRS[1], PAIRS[0]]
    for name, side in zip("st", zip(*pairs, strict=True), strict=True):
        (place / name).write_text("".join(" ".join(words) + "\n" for words in side))
    (place / "gold").write_text("0-0\n0-0 1-1 2-2\n0-0\n\n0-0\n0-0 1-1 2-2\n")
    arguments = ["attention", str(llama), str(place / "s"), str(place / "t"), "--template", TEMPLATE, "-q"]
    assert run_program([*arguments, "-o", str(place / "a.npz")]) == 0
    return place


def test_command(files, capsys, tmp_path):
    names = [str(files / name) for name in ("a.npz", "s", "t", "gold")]
    arguments = ["ablate", *names[:3], "--gold", names[3], "--size", "1", "--size", "2", "--draws", "2", "-q"]
    arguments += ["--set-to", MEAN, "--seed", "3"]
    picture = tmp_path / "p.png"
    more = ["--plot", str(picture)] if is_here("matplotlib") else []
    assert run_program([*arguments, "--json", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    rows, sets = found["ablation"], plan_sets([*map(tuple, found["ranked"])], (1, 2), 2, fill=MEAN, seed=3)
    assert not more or (picture.read_bytes()[:4] == b"\x89PNG" and picture.stat().st_size > 10_000)
    assert found["pairs"] == 2  # lines 2 and 6; line 4 is blank
    reader = AblatedReader(
        *load_pretrained(found["made"]["model"]),
        Bitext.from_sentences(*zip(PAIRS[1], PAIRS[0], strict=True)),
        GoldLinks(*[Links.from_lists([[(0, 0), (1, 1), (2, 2)]] * 2)] * 2),
        template=TEMPLATE,
        device="cpu",
    )
    readings = {one: reader.read(one) for one in (HeadSet(WHOLE), HeadSet(NO_SOURCE), *sets)}
    assert found["tokens"] == readings[HeadSet(WHOLE)].tokens.sum()
    wanted = ablation_table(readings, reader.counter, reader.heads, seed=3)
    assert_frame_equal(pd.DataFrame(rows), wanted, check_dtype=False, rtol=1e-4)
    assert rows[0]["hits"] > 0
    assert run_program(arguments) == 0
    title, table, best = capsys.readouterr().out.split("\n\n")
    assert title.endswith(f"of 2 pairs, {found['tokens']} tokens.")
    for row, line in zip(rows, table.splitlines()[1:], strict=True):
        cells = [str(row["size"] or "-"), row["kind"], str(row["draws"])]
        for name in ("loss", "cost", "best_more", "hits", "gained"):
            unit, digits = (100, 1) if name in ("hits", "gained") else (1, 3)
            values = [row[f"{name}{end}"] for end in ("", "_low", "_high") if row[name] is not None]
            numbers = [f"{unit * each:.{digits}f}" for each in values]
            cells.append("{} ({} to {})".format(*numbers) if numbers else "-")
        assert re.split("  +", line.strip()) == cells
    assert best == "The best heads, by the other pairs: {}.{}, {}.{}.\n".format(*chain(*found["ranked"][:2]))
    assert run_program([*arguments, "--size", "100"]) == 2
    assert f"100 heads cannot be switched off; the file has {len(ALL)}" in capsys.readouterr().err


def test_heads_are_ranked_by_the_odd_lines(files, capsys):
    """By the hits that `heads` finds where only these lines have links."""
    names, found = [*(str(files / name) for name in ("a.npz", "s", "t")), "--gold", str(files / "other")], []
    for even, command in (("1-0", ["ablate", "--size", "1", "--draws", "1"]), ("", ["heads"])):
        odd = "0-0 1-1 2-2"
        (files / "other").write_text(f"{odd}\n{even}\n{odd}\n\n{odd}\n{even}\n")
        assert run_program([*command, *names, "--json", "-q"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    hits = {(row["layer"], row["head"]): row["hits"] for row in reversed(found[1]["heads"])}  # the better of two
    ranked = [hits[tuple(head)] for head in found[0]["ranked"]]
    assert ranked == sorted(hits.values(), reverse=True)
    assert ranked[0] > ranked[-1]


def test_what_is_refused(files, tmp_path, capsys):
    replace(AttentionHeads.load(files / "a.npz"), made={}).save(tmp_path / "a.npz")
    (tmp_path / "gold").write_text("\n0-0\n\n\n\n0-0\n")
    odd, named = "ranked by links of the odd lines, and judged", tmp_path / "a.npz"
    known = AttentionHeads.load(files / "a.npz")
    replace(known, heads=tuple((layer + 1, head) for layer, head in known.heads)).save(tmp_path / "b.npz")
    lacking = "the attention file has heads that its model has not: layers 1 to 2, heads 0 to 3"
    replace(known, made={"model": "bart"}).save(tmp_path / "c.npz")
    cases = (named, files, "names no language model"), (files / "a.npz", tmp_path, odd)
    cases += (
        (tmp_path / "c.npz", files, "heads of decoder-only models can be switched off; bart is an encoder-"),
    )
    for heads, gold, message in (*cases, (tmp_path / "b.npz", files, lacking)):
        names = [str(place) for place in (heads, files / "s", files / "t", gold / "gold")]
        assert run_program(["ablate", *names[:3], "--gold", names[3], "-q"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_blank_sides_are_refused(llama):
    bitext = Bitext.from_sentences([["a"], ["b"]], [["x"], []])
    links = GoldLinks(*[Links.from_lists([[], []])] * 2)
    with pytest.raises(AlignkitError, match="pair 2 has a blank side"):
        AblatedReader(*load_pretrained(llama), bitext, links, template=TEMPLATE, device="cpu")
