"""Which head aligns: heads whose alignment is planted are found, with their shift."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alignkit.errors import AlignkitError, InputError
from alignkit.heads.ranking import position_scores, rank_heads, write_alignment_heads
from alignkit.interop.heads import AttentionHeads, HeadChoice
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import AER
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit_cli.main import run as run_program

PAIRS, LAYERS, HEADS = 60, 3, 4
GOOD, LATE = (1, 2), (2, 0)  # the planted heads: one as it is, one a step late


@pytest.fixture(scope="module")
def planted():
    """Source sentences, gold links as permutations, and attention (layers, heads, T, L) whose last row is </s>."""
    rng = np.random.default_rng(11)
    sentences, gold, pairs = [], [], []
    for _ in range(PAIRS):
        length = int(rng.integers(4, 9))
        sentences.append([f"w{i}" for i in rng.integers(0, 30, length)])
        places = rng.permutation(length)
        gold.append([(int(s), t) for t, s in enumerate(places)])
        attention = rng.dirichlet(np.ones(length + 1), (LAYERS, HEADS, length + 1))
        noisy = np.where(rng.random(length) < 0.1, rng.integers(0, length, length), places)
        sure = 2 * np.eye(length + 1)[noisy]
        attention[GOOD][:length] += sure
        attention[LATE][1:] += sure
        pairs.append(attention / attention.sum(axis=-1, keepdims=True))
    bitext = Bitext.from_sentences(sentences, [[f"v{s}" for s, _ in links] for links in gold])
    groups = [(np.array([*range(len(x)), -1]), len(x)) for x in sentences]
    links = Links.from_lists(gold)
    return AttentionHeads.from_pairs(pairs, (groups, groups)), bitext, GoldLinks(links, links)


def best_of(table, count=2):
    rows = table.head(count)
    return set(zip(rows["layer"], rows["head"], rows["shift"], strict=True))


@pytest.fixture(scope="module")
def by_gold(planted):
    heads, bitext, gold = planted
    return rank_heads(heads, bitext, gold=gold, threads=1)


def test_both_heads_are_found_with_their_shift(by_gold):
    assert best_of(by_gold.table) == {(*GOOD, 0), (*LATE, 1)}
    assert len(by_gold.table) == 2 * LAYERS * HEADS
    assert (by_gold.table["aer"].head(2) < 0.15).all()
    assert (by_gold.table["aer"].iloc[2:] > 0.6).all()
    assert (by_gold.table["low"] <= by_gold.table["aer"]).all()
    assert (by_gold.table["aer"] <= by_gold.table["high"]).all()
    assert by_gold.table["tied"].tolist() == [True, True, *[False] * (2 * LAYERS * HEADS - 2)]


def test_aer_is_that_of_the_largest_attention(planted, by_gold):
    heads, _, gold = planted
    links = []
    for m in range(PAIRS):
        matrix = heads.pair(m).reshape(LAYERS, HEADS, *heads.shapes[m])[GOOD][:-1, :-1]
        links.append([(int(row.argmax()), t) for t, row in enumerate(matrix)])
    row = by_gold.table.set_index(["layer", "head", "shift"]).loc[(*GOOD, 0)]
    wanted = AER.measure(gold, Links.from_lists(links))
    assert row["aer"] == pytest.approx(wanted["aer"])
    assert (row["low"], row["high"]) == pytest.approx((wanted["low"], wanted["high"]))


def test_the_shift_of_the_best_head_is_judged(by_gold, planted):
    assert by_gold.difference["layer"] in (GOOD[0], LATE[0])
    assert abs(by_gold.difference["difference"]) > 0.4
    assert by_gold.difference["low"] * by_gold.difference["high"] > 0
    heads, bitext, gold = planted
    only = AttentionHeads(heads.values[[GOOD[0] * HEADS + GOOD[1]]], heads.shapes, (GOOD,), heads.words)
    found = rank_heads(only, bitext, gold=gold, threads=1)
    assert found.difference["low"] > 0.4  # shifted rows are worse
    late = AttentionHeads(heads.values[[LATE[0] * HEADS + LATE[1]]], heads.shapes, (LATE,), heads.words)
    assert rank_heads(late, bitext, gold=gold, threads=1).difference["high"] < -0.4


def test_alignment_heads_are_those_without_a_shift(by_gold):
    assert by_gold.alignment_heads[0] == GOOD
    means = by_gold.means[by_gold.means["shift"] == 0].set_index("heads")["aer"]
    assert means.idxmin() == len(by_gold.alignment_heads)
    assert means[1] == pytest.approx(by_gold.table.query("shift == 0")["aer"].iloc[0])


def test_two_good_heads_are_averaged(planted):
    """Each of two heads aligns half of the words; only their mean aligns all of them."""
    heads, bitext, gold = planted
    pairs = []
    for m in range(PAIRS):
        length = int(heads.shapes[m, 1]) - 1
        matrix = np.zeros((1, 3, length + 1, length + 1), np.float32)
        matrix[0, 2] = 0.3
        matrix[..., 0] += 0.01  # what they do not align they give to the first word
        for s, t in gold.sure[m].tolist():
            matrix[0, t % 2, t, s] = 1
        pairs.append(matrix)
    found = rank_heads(AttentionHeads.from_pairs(pairs, heads.words), bitext, gold=gold, threads=1)
    assert set(found.alignment_heads) == {(0, 0), (0, 1)}
    assert found.means.query("shift == 0 and heads == 2")["aer"].iloc[0] == 0


def test_without_gold_another_aligner_finds_them(planted):
    heads, bitext, gold = planted
    matrices = [np.full(shape, 0.01) for shape in bitext.shapes]
    for matrix, links in zip(matrices, gold.sure, strict=True):
        matrix[links[:, 1], links[:, 0]] = 1
    found = rank_heads(heads, bitext, reference=Scores.from_matrices(matrices), threads=1)
    assert found.metric.name == "agreement"
    assert best_of(found.table) == {(*GOOD, 0), (*LATE, 1)}
    assert (found.table["low"].head(2) > found.table["chance"].head(2) + 0.4).all()
    others = found.table.iloc[2:]
    assert (others["low"] < others["chance"] + 0.1).all()


def test_rows_without_attention_do_not_agree(planted):
    """Without </s>, the last word has no shifted row; a row of ties would agree with everything."""
    bitext, gold = planted[1:]
    matrices = [np.full(shape, 0.01, np.float32) for shape in bitext.shapes]
    for matrix, links in zip(matrices, gold.sure, strict=True):
        matrix[links[:, 1], links[:, 0]] = 1
    reference = Scores.from_matrices(matrices)
    found = rank_heads(AttentionHeads.from_scores(reference), bitext, reference=reference, threads=1)
    rows = found.table.set_index("shift")["rows"]
    assert rows[0] - rows[1] == PAIRS
    assert found.table.set_index("shift").loc[1, "agreement"] < 0.05


def test_what_is_refused(planted):
    heads, bitext, gold = planted
    with pytest.raises(AlignkitError, match="either against gold links or"):
        rank_heads(heads, bitext)
    with pytest.raises(AlignkitError, match=f"{PAIRS} sentence pairs, the text has {PAIRS - 1}"):
        rank_heads(heads, bitext.block(0, PAIRS - 1), gold=gold)
    turned = Bitext.from_sentences(*[[["a"] * 3] * PAIRS] * 2)
    with pytest.raises(AlignkitError, match="line 1: the heads are of"):
        rank_heads(heads, turned, gold=gold)


def test_other_entries_of_a_configuration_stay(tmp_path):
    path = tmp_path / "config.json"
    write_alignment_heads(path, [(np.int64(5), 1)])
    assert json.loads(path.read_text()) == {"alignment_heads": [[5, 1]]}
    path.write_text(json.dumps({"lang_ids": [3], "alignment_heads": [[0, 0]]}))
    write_alignment_heads(path, [(1, 2), (3, 4)])
    assert json.loads(path.read_text()) == {"lang_ids": [3], "alignment_heads": [[1, 2], [3, 4]]}
    for text in ("[1]", "x"):
        path.write_text(text)
        with pytest.raises(InputError, match="not"):
            write_alignment_heads(path, [(0, 0)])
        assert path.read_text() == text


@pytest.fixture(scope="module")
def files(planted, tmp_path_factory):
    heads, bitext, gold = planted
    folder = tmp_path_factory.mktemp("heads")
    heads.save(folder / "a.npz")
    for name, side in (("s", bitext.source), ("t", bitext.target)):
        (folder / name).write_text("".join(" ".join(side.words(m)) + "\n" for m in range(PAIRS)))
    (folder / "gold").write_bytes(gold.sure.to_pharaoh())
    return folder


def test_the_command_finds_them(files, capsys, tmp_path):
    texts = [str(files / name) for name in ("a.npz", "s", "t")]
    config = tmp_path / "config.json"
    arguments = ["heads", *texts, "--gold", str(files / "gold"), "--threads", "1"]
    assert run_program([*arguments, "--json", "--alignment-heads", str(config)]) == 0
    found = json.loads(capsys.readouterr().out)
    first = {(row["layer"], row["head"], row["shift"]) for row in found["heads"][:2]}
    assert first == {(*GOOD, 0), (*LATE, 1)}
    assert json.loads(config.read_text())["alignment_heads"][0] == list(GOOD) == found["alignment_heads"][0]
    assert len(found["heads"]) == 2 * LAYERS * HEADS
    assert run_program(arguments) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    rows = [line for line in lines if line and line[0] in ("1.2", "2.0+1")]
    assert len(rows) == 2
    assert "14 more" in out
    assert "Shift:" in out
    assert "alignment_heads: 1.2" in out


def test_the_command_without_gold_fits_an_aligner(files, capsys):
    """The words of a pair tell which is which: target word k stands at place k of the source."""
    arguments = ["heads", *(str(files / name) for name in ("a.npz", "s", "t")), "--threads", "1", "-q"]
    assert run_program([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metric"] == "agreement"
    assert {"agreement", "chance", "low", "high"} <= set(found["heads"][0])
    assert run_program([*arguments, "--gold", str(files / "gold"), "--model", "x"]) == 2
    assert run_program(["heads", str(files / "nothing"), *arguments[2:]]) == 2
    capsys.readouterr()
    (files / "short").write_text("x\n" * PAIRS)
    assert run_program(["heads", str(files / "a.npz"), *[str(files / "short")] * 2, "-q"]) == 2
    assert "a.npz: line 1: the heads are of" in capsys.readouterr().err


def test_a_head_in_the_report(files, planted):
    """It has the words' attention of that head."""
    from alignkit.report.build import build_report

    heads = planted[0]
    text = [(files / side).read_text().splitlines() for side in "st"]
    found = build_report(text=text, scores={"late": f"{files / 'a.npz'}:{LATE[0]}.{LATE[1]}+1"})
    shown = next(each for each in found.sets if each.name == "late.alpha")
    wanted = heads.word_scores(HeadChoice(*LATE, shifted=True)).values
    assert shown.scores.values == pytest.approx(wanted, abs=1e-5)


def test_a_head_in_evaluate_and_compare(files, capsys, by_gold):
    head = f"{files / 'a.npz'}:{LATE[0]}.{LATE[1]}+1"
    assert run_program(["evaluate", str(files / "gold"), head, "--json"]) == 0
    row = by_gold.table.set_index(["layer", "head", "shift"]).loc[(*LATE, 1)]
    assert json.loads(capsys.readouterr().out)["aer"] == pytest.approx(row["aer"])
    texts = [str(files / name) for name in ("s", "t")]
    links = f"gold={files / 'gold'}"
    assert run_program(["compare", *texts, "--scores", f"late={head}", "--scores", links, "--json", "-q"]) == 0
    table = json.loads(capsys.readouterr().out)["agreement"]
    values = {(row["u"], row["v"]): row for row in table}
    assert {u for u, _ in values} == {"ibm1.beta", "align.alpha", "late.alpha", "gold.alpha"}
    assert values["gold.alpha", "late.alpha"]["agreement"] > 0.8
    assert run_program(["compare", *texts, "--scores", f"late={head}", "-q"]) == 0
    assert "late.alpha" in capsys.readouterr().out


def test_positions_alone_are_what_a_loop_finds(planted, by_gold):
    _, bitext, gold_links = planted
    wrong = {"diagonal": 0, "first word": 0}
    total = 0
    for m, (T, L) in enumerate(bitext.shapes.tolist()):
        gold = {tuple(link) for link in gold_links.sure[m].tolist()}
        total += T + len(gold)
        for t in range(T):
            place = (t + 0.5) * L / T
            nearest = min(range(L), key=lambda s: (abs(s + 0.5 - place), s))
            for name, s in (("diagonal", nearest), ("first word", 0)):
                wrong[name] -= 2 * ((s, t) in gold)
    expected = {name: 1 + value / total for name, value in wrong.items()}
    assert by_gold.positions == pytest.approx(expected)


def test_the_diagonal_of_a_pair_of_unequal_lengths():
    diagonal = position_scores(np.array([[2, 5], [4, 2]]))["diagonal"]
    assert [matrix.argmax(axis=1).tolist() for matrix in diagonal] == [[1, 3], [0, 0, 1, 1]]
