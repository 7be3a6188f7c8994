"""Error rates through training: against counting by hand, of planted scores, and the claims."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import learning as experiment
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks, Links
from alignkit.neural.settings import TextSettings
from alignkit.neural.training.trainer import learn_tokenizer
from alignkit.scores import Scores
from alignkit.text.pairs import LinePairs, read_line_pairs
from alignkit.text.tokenization import UNK, encode_bitext, learn_words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set whose words are copied in another order: 20 pairs with gold links, 180 more."""
    place = tmp_path_factory.mktemp("aer") / "planted"
    place.mkdir()
    pairs, links = permuted_copy(3, pairs=200, types=12, longest=5)
    for part, low, high in (("test", 0, 20), ("train", 20, 200)):
        for side in (0, 1):
            lines = [" ".join(pair[side]) for pair in pairs[low:high]]
            (place / f"{part}.{('src', 'tgt')[side]}").write_text("\n".join(lines) + "\n")
    (place / "test.gold").write_text("\n".join(Links.from_lists(links[:20]).to_strings()) + "\n")
    return place.parent


def test_the_error_rate_by_hand():
    lines = LinePairs(["a b", "c"], ["x y", "z"])
    tokenizer = learn_words([*lines.source, *lines.target])
    bitext = encode_bitext(tokenizer, *lines)
    # Rows x, y and EOS, columns BOS, a, b, EOS: x is linked to a, although it attends to EOS most, and y to a too.
    one = np.array([[0.0, 0.3, 0.1, 0.6], [0.1, 0.5, 0.4, 0.0], [0, 0, 0, 1]], np.float32)
    two = np.array([[0.2, 0.7, 0.1], [0, 0, 1]], np.float32)
    people = Links.from_lists([[(0, 0), (1, 1)], [(0, 0)]])
    gold = GoldLinks(people, people)
    scores, text = Scores.from_matrices([one, two]), experiment.GoldSet("by hand", lines, lines, gold)
    assert experiment.error_rate(text, scores, bitext, tokenizer) == pytest.approx(1 - 4 / 6)
    # A factor for each row changes nothing.
    other = Scores.from_matrices([one * np.array([[5.0], [0.1], [1.0]], np.float32), two])
    assert experiment.error_rate(text, other, bitext, tokenizer) == pytest.approx(1 - 4 / 6)


def test_every_subword_of_a_word_has_one_vote():
    """The first piece of the target word is for a, by numbers that are 100 times as large; the others for b."""
    lines = LinePairs(["a b"], ["xyxyyx"])
    tokenizer = learn_tokenizer(["a b xyxyyx yx xy yy xx"] * 9, TextSettings(pieces=14))
    bitext = encode_bitext(tokenizer, *lines)
    source, target = (list(part) for part in (tokenizer.words("a b"), tokenizer.words("xyxyyx")))
    assert len(target) > 2
    rows = np.zeros((len(bitext.target[0]), len(bitext.source[0])), np.float32)
    a, b = (1 + source.index(word) for word in (0, 1))  # after BOS
    rows[:, a], rows[:, b] = 0.1, 0.9
    rows[0, a], rows[0, b] = 60, 40
    gold = Links.from_lists([[(1, 0)]])
    text = experiment.GoldSet("by hand", lines, lines, GoldLinks(gold, gold))
    assert experiment.error_rate(text, Scores.from_matrices([rows]), bitext, tokenizer) == 0


def test_runs_are_measured_by_the_links_of_their_scores(folder, monkeypatch):
    """Networks that attend as IBM Model 1 does, and whose lexical probe says the opposite."""
    trained = []

    def train(plan, text, progress, look, device):
        assert (len(text.training), len(text.valid)) == (200, 3)
        assert UNK not in text.training.source.tokens
        trained.append((plan.text.tokens, plan.text.minimum, plan.text.pieces, plan.training.seed))
        attention = fit_ibm1(text.training, iterations=2, null=False).score(text.valid, "alpha")
        probe = Scores(1 - attention.values, attention.offsets, attention.shapes)
        for step in (0, 30):
            measured = {"valid.accuracy": step / 100}
            score = {"alpha": attention, "beta": probe}
            look(SimpleNamespace(step=step, metrics=measured, score=lambda pairs, kind: score[kind]))  # noqa: B023

    monkeypatch.setattr(experiment, "train_network", train)
    monkeypatch.setattr(experiment, "error_rate", lambda text, scores, *of: float((scores.values**2).mean()))
    settings = experiment.GoldLinksSettings(
        data=str(folder), pairs=180, judged=3, pieces=60, minimum=2, seeds=2, seed=3, iterations=2
    )
    result = experiment.run_gold_links(settings)
    assert trained == [(unit, 2, 60, seed) for unit in experiment.UNITS for seed in (3, 4)]
    raw = result.rows["steps"]
    assert raw.step.tolist() == [0, 30] * 4
    assert raw.accuracy.tolist() == [0, 0.3] * 4
    assert raw.seed.tolist() == [3, 3, 4, 4] * 2
    assert raw.alpha.tolist() == raw.ibm1.tolist()
    assert (raw.beta - raw.ibm1).abs().min() > 0.05
    assert "200 pairs, 3 judged by gold links" in result.remarks[-1]


def rows(alpha, beta, ibm1, unit="words", seed=0):
    steps = [0, 10, 20, 40]
    values = {"step": steps, "alpha": alpha, "beta": beta, "ibm1": ibm1}
    return pd.DataFrame({"set": "x", "unit": unit, "seed": seed, **values})


def test_what_warm_up_decides_is_no_claim():
    """alpha is half-way, at 0.45, at step 28.3, beta at step 6; another network learns no attention."""
    raw = rows([0.9, 0.9, 0.8, 0.2], [0.9, 0.4, 0.3, 0.3], 0.4)
    raw = pd.concat([raw, rows([0.9] * 4, [0.9, 0.4, 0.3, 0.3], 0.4, seed=1)])
    raw = pd.concat([raw, raw.assign(unit="subwords")], ignore_index=True)
    halves = experiment.half_way_errors(raw)
    every, some = (list(experiment.gold_links_claims(raw, halves, epochs)) for epochs in (0, 3))
    (asked,) = (each for each in every if each.text not in {other.text for other in some})
    assert asked.text == "The lexical probe is right first, attention after"
    assert "(2 of 4)" in asked.statistic
    assert asked.value == pytest.approx(np.log2((20 + 20 * 0.25 / 0.6) / 6))


def test_the_pairs_of_a_set(folder):
    settings = experiment.GoldLinksSettings(data=str(folder), pairs=50, judged=7)
    (one,), (again,) = experiment.read_sets(settings), experiment.read_sets(settings)
    everything = read_line_pairs(folder / "planted" / "train.src", folder / "planted" / "train.tgt")
    test = read_line_pairs(folder / "planted" / "test.src", folder / "planted" / "test.tgt")
    # All pairs with gold links are trained on, and the first are judged.
    assert list(one.lines.source[:20]) == list(test.source)
    assert list(one.judged.target) == list(test.target[:7])
    gold = read_gold(folder / "planted" / "test.gold")
    assert one.gold.sure.to_strings() == gold.sure.to_strings()[:7]
    # The others are drawn, in the order of the text, with both sides of a pair.
    drawn = list(zip(*(side[20:] for side in one.lines), strict=True))
    pairs = list(zip(*everything, strict=True))
    places = iter(pairs)
    assert len(drawn) == 50
    assert all(pair in places for pair in drawn)
    assert drawn != pairs[:50]
    assert list(one.lines.source) == list(again.lines.source)
    (every,) = experiment.read_sets(experiment.GoldLinksSettings(data=str(folder), pairs=0))
    assert list(every.lines.source[20:]) == list(everything.source)


def test_sets_that_are_not_there(folder, tmp_path):
    with pytest.raises(AlignkitError, match=r"no folder with test\.gold"):
        experiment.read_sets(experiment.GoldLinksSettings(data=str(tmp_path)))
    with pytest.raises(AlignkitError, match="data, which is not given"):
        experiment.GoldLinksSettings(sets=("x",))
    assert [each.name for each in experiment.read_sets(experiment.GoldLinksSettings())] == ["sample"]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "test.gold").write_text("0-0\n")
    for name in ("test.src", "test.tgt", "train.src", "train.tgt"):
        (tmp_path / "bad" / name).write_text("a\na\n")
    with pytest.raises(AlignkitError, match="gold links of 1 pairs, but 2"):
        experiment.read_sets(experiment.GoldLinksSettings(data=str(tmp_path)))
    for name in ("test.src", "test.tgt", "train.src", "train.tgt"):
        (tmp_path / "bad" / name).write_text("a\n")
    for gold, message in {
        "": "is empty",
        "0-0\n0-0\n": "has links for 2 pairs, the text has 1",
        "\n": "has no links, so there is nothing to score against",
        "0-0 1-0\n": "link 1-0 points outside",
    }.items():
        (tmp_path / "bad" / "test.gold").write_text(gold)
        with pytest.raises(AlignkitError, match=message):
            experiment.read_sets(experiment.GoldLinksSettings(data=str(tmp_path)))
    for name in "dc":  # two sets of one pair, in capitals
        shutil.copytree(tmp_path / "bad", tmp_path / "two" / name)
        (tmp_path / "two" / name / "test.gold").write_text("0-0\n")
        (tmp_path / "two" / name / "test.src").write_text("A\n")
    for sets in ((), ("d", "c")):
        found = experiment.read_sets(experiment.GoldLinksSettings(data=str(tmp_path / "two"), sets=sets))
        assert [each.name for each in found] == list(sets or "cd")
        assert found[0].lines.source == ["a", "a"]
    (found,) = experiment.read_sets(experiment.GoldLinksSettings(data=str(folder), pairs=7))
    assert (found.name, len(found.lines.source), len(found.judged.source)) == ("planted", 27, 20)
