"""Several heads as an aligner."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from alignkit.aligner import load_aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.lab.heads.combination import HeadCombination, _regression, fit_combination
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.links.from_scores import best_links, links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.support.files import save_arrays
from alignkit.text.bitext import Bitext
from alignkit_cli.main import run as run_program

from .test_hugging_face import SOURCE, TARGET
from .test_language_models import make_language_model

PAIRS, LAYERS, HEADS = 20, 2, 4
GOOD, LATE = (0, 1), (1, 2)  # the planted heads: one as it is, one a step late


def noisy_heads(seed, pairs=PAIRS, count=HEADS, strength=1.0):
    """(heads, bitext, gold): two heads attend to the links, so much more than at random, of target words of one or
    two subwords; heads differ in how much they attend to words at all, and some links are only possible."""
    rng = np.random.default_rng(seed)
    lines, sure, possible, arrays, words = [], [], [], [], ([], [])
    for _ in range(pairs):
        length = int(rng.integers(4, 9))
        lines.append([f"w{k}" for k in rng.integers(0, 9, length)])
        places = rng.permutation(length)
        possible.append([(int(s), t) for t, s in enumerate(places)])
        sure.append([link for link in possible[-1] if rng.random() < 0.7])
        rows = np.repeat(np.arange(length), rng.integers(1, 3, length))
        pair = rng.dirichlet(np.ones(length), (LAYERS, count, len(rows) + 1))
        pair[GOOD][:-1] += strength * np.eye(length)[places[rows]]
        pair[LATE][1:] += strength * np.eye(length)[places[rows]]
        arrays.append(pair * rng.random((LAYERS, count, 1, 1)))
        for side, groups in zip(words, (np.arange(length), np.append(rows, -1)), strict=True):
            side.append((groups, length))
    heads = replace(AttentionHeads.from_pairs(arrays, words), made={"model": "x", "prefix": "y"})
    return heads, Bitext.from_sentences(lines, lines), GoldLinks(*map(Links.from_lists, (sure, possible)))


@pytest.fixture(scope="module")
def planted():
    return noisy_heads(0, strength=2.0)


def naive_combination(heads, gold):
    """(error, penalty, {(layer, head, shift): weight}, bias): by Pearson's correlation, and each half of the pairs
    linked by what the other teaches."""
    scores = {
        (*pair, shift): heads.word_scores(HeadChoice(*pair, shift)) for shift in (0, 1) for pair in heads.heads
    }
    matrices = {name: list(each) for name, each in scores.items()}
    linked = [np.zeros_like(matrix) for matrix in matrices[*GOOD, 0]]
    for m, links in enumerate(gold.possible):
        linked[m][links[:, 1], links[:, 0]] = 1

    def flat(each, parity=None):
        return np.concatenate([matrix.ravel() for m, matrix in enumerate(each) if parity in (None, m % 2)])

    correlation = {name: np.corrcoef(flat(each), flat(linked))[0, 1] for name, each in matrices.items()}
    names = sorted(matrices, key=lambda name: -correlation[name])[:32]

    def fitted(penalty, parity=None):
        values = np.stack([flat(matrices[name], parity) for name in names]).astype(np.float64)
        return _regression(values, flat(linked, parity) > 0, penalty)

    tried = []
    for penalty in (1e-2, 1e-3, 1e-4):
        found = [[] for _ in linked]
        for parity in (0, 1):
            weights, bias = fitted(penalty, 1 - parity)
            for m in range(parity, len(linked), 2):
                logits = bias + sum(w * matrices[name][m] for name, w in zip(names, weights, strict=True))
                found[m] = [(s, t) for t, s in np.argwhere(logits >= 0).tolist()]
        tried.append((evaluate(gold, Links.from_lists(found)).aer, penalty))
    error, penalty = min(tried)
    weights, bias = fitted(penalty)
    return error, penalty, {name: w for name, w in zip(names, weights, strict=True) if w > 0}, bias


@pytest.mark.parametrize(
    ("data", "penalty"),
    [((3, 8, 4, 2.0), 1e-2), ((1, 6, 20, 0.6), 1e-3), ((3, 20, 4, 0.3), 1e-4)],
    ids=["sharp", "many heads", "blurred"],
)
def test_heads_that_complete_each_other_are_combined(data, penalty):
    heads, bitext, gold = noisy_heads(*data)
    aligner, error = fit_combination(heads, bitext, gold)
    wanted = naive_combination(heads, gold)
    assert wanted[1] == penalty  # which is another one in each example
    assert error == pytest.approx(wanted[0])
    found = dict(zip(aligner.heads, aligner.weights.tolist(), strict=True))
    assert found == pytest.approx(wanted[2], rel=1e-3)
    assert {(*GOOD, 0), (*LATE, 1)} <= set(found)
    assert aligner.bias == pytest.approx(wanted[3], rel=1e-3)
    assert (aligner.made, aligner.threshold) == (heads.made, 0.5)


def test_its_probabilities_are_the_logistic_function_of_attention(planted):
    heads, bitext, _ = planted
    aligner = HeadCombination({}, ((*GOOD, 0), (*LATE, 1)), np.array([2.0, 3.0]), -1.0)
    alpha = aligner.combined(heads, bitext.shapes)
    one, two = heads.word_scores(HeadChoice(*GOOD)), heads.word_scores(HeadChoice(*LATE, shifted=True))
    for m in range(3):
        assert np.allclose(alpha[m], 1 / (1 + np.exp(1 - 2 * one[m] - 3 * two[m])), atol=1e-6)


def test_the_penalty_leaves_the_likeliest_weights():
    """No other weights near by have a smaller loss."""
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
    with pytest.raises(AlignkitError, match=r"the model has no head 0\.9; it has layers 0 to 1, heads 0 to 3"):
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
    for known in (arrays, header):
        known.update((name, each) for name, each in change.items() if name in known)
    save_arrays(tmp_path / "b.npz", "alignkit.heads", 1, arrays, header)
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
    attention = ["attention", model, *text, "-o", heads, "-q"]
    assert run_program([*attention, "--prefix", "x"]) == 2  # of an encoder-decoder
    assert run_program([*attention, *template]) == 0
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
