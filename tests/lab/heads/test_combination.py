"""Several heads as an aligner."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from alignkit.aligner import load_aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.lab.heads.combination import HeadCombination, fit_combination
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.links.from_scores import best_links, links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.support.files import save_arrays
from alignkit.text.bitext import Bitext
from alignkit_cli.main import run as run_program

from .test_hugging_face import SOURCE, TARGET
from .test_language_models import make_language_model

PAIRS, LAYERS, HEADS = 40, 2, 3


@pytest.fixture(scope="module")
def planted():
    """Head 1.2 attends to the links of even words, head 0.1 to those of odd ones a step late."""
    rng = np.random.default_rng(5)
    lines, links, pairs = [], [], []
    for _ in range(PAIRS):
        length = int(rng.integers(4, 9))
        lines.append([f"w{k}" for k in rng.integers(0, 9, length)])
        places = rng.permutation(length)
        links.append([(int(s), t) for t, s in enumerate(places)])
        pair = rng.dirichlet(np.ones(length), (LAYERS, HEADS, length))
        even = np.arange(length) % 2 == 0
        pair[1, 2][even] = 0.1 * pair[1, 2][even] + 0.9 * np.eye(length)[places][even]
        late = np.flatnonzero(~even & (np.arange(length) < length - 1))
        pair[0, 1][late + 1] = 0.1 * pair[0, 1][late + 1] + 0.9 * np.eye(length)[places][late]
        pairs.append(pair)
    gold = GoldLinks(*[Links.from_lists(links)] * 2)
    return (
        replace(AttentionHeads.from_pairs(pairs), made={"model": "x"}),
        Bitext.from_sentences(lines, lines),
        gold,
    )


def test_heads_that_complete_each_other_are_combined(planted):
    heads, bitext, gold = planted
    aligner, error = fit_combination(heads, bitext, gold)
    largest = np.argsort(-aligner.weights)[:2]
    assert {aligner.heads[k] for k in largest} == {(1, 2, 0), (0, 1, 1)}
    assert len(aligner.heads) < 2 * LAYERS * HEADS
    found = links_above(aligner.combined(heads, bitext.shapes), 0.5)
    assert evaluate(gold, found).aer < error + 0.05 < 0.25


def test_its_probabilities_are_the_logistic_function_of_attention(planted):
    heads, bitext, _ = planted
    aligner = HeadCombination({}, ((0, 1, 0), (1, 2, 1)), np.array([2.0, 3.0]), -1.0)
    alpha = aligner.combined(heads, bitext.shapes)
    for m in range(3):
        one, two = heads.pair(m)[1], np.roll(heads.pair(m)[5], -1, axis=0)
        two[-1] = 0
        assert np.allclose(alpha[m], 1 / (1 + np.exp(1 - 2 * one - 3 * two)), atol=1e-6)


def test_the_penalty_leaves_the_likeliest_weights(planted):
    """No other weights near by have a smaller loss."""
    from alignkit.lab.heads.combination import _regression

    rng = np.random.default_rng(1)
    values, linked = rng.random((3, 400)), rng.random(400) < 0.3
    values[0] += linked
    weights, bias = _regression(values, linked, 1e-3)

    def loss(w, b):
        p = 1 / (1 + np.exp(-(w @ values + b)))
        return -np.log(np.where(linked, p, 1 - p)).mean() + 1e-3 * w.sum()

    assert weights[0] > 1
    for k in range(3):
        for step in (-0.05, 0.05):
            other = np.maximum(weights + step * np.eye(3)[k], 0)
            assert loss(other, bias) >= loss(weights, bias) - 1e-9
    assert loss(weights, bias + 0.05) > loss(weights, bias) < loss(weights, bias - 0.05)


def test_what_is_refused(planted):
    heads, bitext, gold = planted
    other = HeadCombination({}, ((0, 9, 0),), np.ones(1), 0.0)
    with pytest.raises(AlignkitError, match=r"the model has no head 0\.9; it has layers 0 to 1, heads 0 to 2"):
        other.combined(heads, bitext.shapes)
    with pytest.raises(AlignkitError, match="does not name its model"):
        fit_combination(replace(heads, made={}), bitext, gold)
    nothing = replace(heads, values=np.full_like(heads.values, 0.25))
    with pytest.raises(AlignkitError, match="no head gives linked words more"):
        fit_combination(nothing, bitext, gold)
    with pytest.raises(AlignkitError, match="links of at least two sentence pairs"):
        fit_combination(heads, bitext, GoldLinks(*[Links.from_lists([[]] * PAIRS)] * 2))


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.ones(3)},
        {"weights": np.array([1.0, np.nan])},
        {"heads": np.array([[0, 1, 0], [-1, 2, 1]], np.int32)},
        {"heads": np.array([[0, 1], [1, 2]], np.int32)},
        {"heads": np.zeros((0, 3), np.int32), "weights": np.zeros(0)},
        {"made": {"template": "{source} {target}"}},
        {"made": {"model": 3}},
        {"threshold": 2.0},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_damaged_file_is_one_error(tmp_path, change):
    aligner = HeadCombination({"model": "x"}, ((0, 1, 0), (1, 2, 1)), np.array([2.0, 3.0]), -1.0)
    aligner.save(tmp_path / "a.npz")
    again = load_aligner(tmp_path / "a.npz")
    assert (again.heads, again.made, again.weights.tolist()) == (aligner.heads, aligner.made, [2.0, 3.0])
    arrays = {"heads": np.array(aligner.heads, np.int32), "weights": aligner.weights}
    header = {"bias": -1.0, "threshold": 0.5, "made": {"model": "x"}}
    changed = {
        name: {**known, **{k: v for k, v in change.items() if k in known}}
        for name, known in (("arrays", arrays), ("header", header))
    }
    save_arrays(tmp_path / "b.npz", "alignkit.heads", 1, changed["arrays"], changed["header"])
    with pytest.raises(InputError, match=r"b\.npz: damaged"):
        load_aligner(tmp_path / "b.npz")


def test_align_takes_it(tmp_path, capsys):
    """From the attention file to links of a text that the model reads again; gold links are one head's own."""
    text = [str(tmp_path / name) for name in ("src", "tgt")]
    for path, lines in zip(text, (SOURCE, TARGET), strict=True):
        with open(path, "w") as stream:
            stream.writelines(f"{lines[m]}\n" for m in (0, 2, 4, 1))
    model, heads = str(make_language_model("Llama", tmp_path / "model")), str(tmp_path / "h.npz")
    template = ["--template", "German: {source} English: {target}"]
    assert run_program(["attention", model, *text, "-o", heads, *template, "-q"]) == 0
    own = best_links(AttentionHeads.load(heads).word_scores(HeadChoice(1, 2)), null=False)
    (tmp_path / "gold").write_bytes(own.to_pharaoh())
    saved = str(tmp_path / "m.npz")
    arguments = ["heads", heads, *text, "--gold", str(tmp_path / "gold"), "--save-model", saved, "-q"]
    assert run_program([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["combined"]
    aligner = load_aligner(saved)
    assert aligner.made == {"model": model, "template": template[1]}
    assert list(facts["weights"].values()) == aligner.weights.tolist()
    assert "1.2" in facts["weights"]
    assert run_program(arguments) == 0
    assert f"The aligner combines {len(aligner.heads)} heads" in capsys.readouterr().out
    assert run_program(["align", *text, "--model", saved, "--threshold", "0.2", "-q"]) == 0
    sides = [[lines[m].split() for m in (0, 2, 4, 1)] for lines in (SOURCE, TARGET)]
    bitext = Bitext.from_sentences(*sides)
    wanted = links_above(aligner.combined(AttentionHeads.load(heads), bitext.shapes), 0.2)
    found = capsys.readouterr().out.splitlines()
    assert found == wanted.to_strings()
    assert found[0]
