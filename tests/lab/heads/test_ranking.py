"""Which head aligns: heads whose alignment is planted are found, with their shift."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.heads.ranking import BestLinkCounter, compare_rankings, rank_heads
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import AER, evaluate
from alignkit.metrics.agreement import agreement
from alignkit.metrics.intervals import adjusted_p, resampled_sums
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
    return rank_heads(heads, bitext, gold, threads=1)


def test_both_heads_are_found_with_their_shift(by_gold):
    assert best_of(by_gold.table) == {(*GOOD, 0), (*LATE, 1)}
    assert len(by_gold.table) == 2 * LAYERS * HEADS
    assert (by_gold.table["aer"].head(2) < 0.15).all()
    assert (by_gold.table["aer"].iloc[2:] > 0.6).all()
    for name, low, high in (("hits", "low", "high"), ("aer", "aer_low", "aer_high")):
        assert (by_gold.table[low] <= by_gold.table[name]).all()
        assert (by_gold.table[name] <= by_gold.table[high]).all()
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
    assert (row["aer_low"], row["aer_high"]) == pytest.approx((wanted["low"], wanted["high"]))


def test_the_shift_of_the_best_head_is_judged(by_gold, planted):
    assert by_gold.difference["layer"] in (GOOD[0], LATE[0])
    assert abs(by_gold.difference["difference"]) > 0.4
    assert by_gold.difference["low"] * by_gold.difference["high"] > 0
    heads, bitext, gold = planted
    only = AttentionHeads(heads.values[[GOOD[0] * HEADS + GOOD[1]]], heads.shapes, (GOOD,), heads.words)
    found = rank_heads(only, bitext, gold, threads=1)
    assert found.difference["high"] < -0.4  # shifted rows are worse
    late = AttentionHeads(heads.values[[LATE[0] * HEADS + LATE[1]]], heads.shapes, (LATE,), heads.words)
    assert rank_heads(late, bitext, gold, threads=1).difference["low"] > 0.4


def test_alignment_heads_are_those_without_a_shift(by_gold):
    assert by_gold.alignment_heads[0] == GOOD
    alone = by_gold.table.query("shift == 0")["hits"].iloc[0]
    assert by_gold.mean["hits"] >= alone if len(by_gold.alignment_heads) > 1 else by_gold.mean["hits"] == alone


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
    found = rank_heads(AttentionHeads.from_pairs(pairs, heads.words), bitext, gold, threads=1)
    assert set(found.alignment_heads) == {(0, 0), (0, 1)}
    assert (found.mean["aer"], found.mean["hits"]) == (0, 1)


def sharp(bitext, gold):
    """Scores whose best source words are the gold links."""
    matrices = [np.full(shape, 0.01) for shape in bitext.shapes]
    for matrix, links in zip(matrices, gold.sure, strict=True):
        matrix[links[:, 1], links[:, 0]] = 1
    return Scores.from_matrices(matrices)


def test_agreement_with_an_aligner_is_measured_as_everywhere(planted):
    heads, bitext, gold = planted
    reference = sharp(bitext, gold)
    found = rank_heads(heads, bitext, gold, reference=reference, threads=1)
    assert best_of(found.table) == {(*GOOD, 0), (*LATE, 1)}
    rows = found.table.set_index(["layer", "head", "shift"])
    wanted = agreement(reference, heads.on_words.scores(HeadChoice(*GOOD)))
    assert rows.loc[(*GOOD, 0), "agreement"] == pytest.approx(wanted.agreement)
    assert rows.loc[(*GOOD, 0), "agreement_chance"] == pytest.approx(wanted.chance)


def test_each_head_is_held_against_its_own_lexicon(planted):
    heads, bitext, gold = planted
    turned = AttentionHeads(heads.values[::-1].copy(), heads.shapes, heads.heads, heads.words)
    found = rank_heads(heads, bitext, gold, reference=turned, threads=1).table.set_index(
        ["layer", "head", "shift"]
    )
    for k, pair in enumerate(heads.heads):
        wanted = agreement(turned.word_scores(HeadChoice(*pair)), heads.word_scores(HeadChoice(*pair)))
        assert found.loc[(*pair, 0), "agreement"] == pytest.approx(wanted.agreement), k
    with pytest.raises(AlignkitError, match="the other quantities are of other heads: layers 0, heads 0"):
        rank_heads(heads, bitext, gold, reference=AttentionHeads.from_scores(sharp(bitext, gold)), threads=1)


def test_rows_without_attention_are_no_hits(planted):
    """Without </s>, the last word has no shifted row; a row of ties would agree with everything."""
    bitext, gold = planted[1:]
    reference = sharp(bitext, gold)
    found = rank_heads(AttentionHeads.from_scores(reference), bitext, gold, reference=reference, threads=1)
    rows = found.table.set_index("shift")
    assert rows.loc[0, "hits"] == rows.loc[0, "agreement"] == 1
    assert rows.loc[1, "hits"] < 0.05
    assert rows.loc[1, "agreement"] < 0.05


def test_what_is_refused(planted):
    heads, bitext, gold = planted
    with pytest.raises(AlignkitError, match=f"links are of {PAIRS} pairs, the text has {PAIRS - 1}"):
        rank_heads(heads, bitext.block(0, PAIRS - 1), gold)
    with pytest.raises(AlignkitError, match=f"heads are of {PAIRS} pairs, the text has {PAIRS - 1}"):
        rank_heads(heads, bitext.block(0, PAIRS - 1), gold.take(np.arange(PAIRS - 1)))
    no_links = GoldLinks(*[Links.from_lists([[]] * PAIRS)] * 2)
    turned = Bitext.from_sentences(*[[["a"] * 3] * PAIRS] * 2)
    with pytest.raises(AlignkitError, match="line 1: the heads are of"):
        rank_heads(heads, turned, no_links)


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
    assert run_program([*arguments, "--json", "--export", "ctranslate2", str(config)]) == 0
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
    assert "14 heads more" in out
    assert "Shift:" in out
    assert "alignment_heads: 1.2" in out


def test_the_command_without_gold_fits_an_aligner(files, capsys):
    """The words of a pair tell which is which: target word k stands at place k of the source."""
    arguments = ["heads", *(str(files / name) for name in ("a.npz", "s", "t")), "--threads", "1", "-q"]
    assert run_program([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"agreement", "agreement_chance", "hits", "low", "high", "aer"} <= set(found["heads"][0])
    assert run_program([*arguments, "--gold", str(files / "gold"), "--model", "x"]) == 2
    assert run_program(["heads", str(files / "nothing"), *arguments[2:]]) == 2
    capsys.readouterr()
    (files / "short").write_text("x\n" * PAIRS)
    assert run_program(["heads", str(files / "a.npz"), *[str(files / "short")] * 2, "-q"]) == 2
    assert "a.npz: line 1: the heads are of" in capsys.readouterr().err


def test_a_head_in_the_report(files, planted):
    """It has the words' attention of that head."""
    from alignkit.lab.report.build import build_report

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


def naive(matrices, bitext, gold):
    """Hits and AER of matrices (T, L) of words."""
    links, hits, linked = [], 0, 0
    for m, matrix in enumerate(matrices):
        known = {tuple(link) for link in gold.possible[m].tolist()}
        links.append([])
        for t, row in enumerate(matrix.tolist()):
            linked += any(target == t for _, target in known)
            if max(row) > 0:
                links[-1].append((row.index(max(row)), t))
                hits += links[-1][-1] in known
    return hits / linked, evaluate(gold, links).aer


def test_every_head_is_what_a_loop_finds(planted):
    """Sure and possible links, words without any, and a blank pair."""
    heads, bitext, _ = planted
    rng = np.random.default_rng(2)
    sure, possible = [], []
    for T, L in bitext.shapes.tolist():
        all_links = {(int(s), t) for t in range(T) for s in rng.integers(0, L, rng.integers(0, 3))}
        possible.append(sorted(all_links))
        sure.append([link for link in possible[-1] if rng.random() < 0.6])
    sentences = [bitext.source.words(m) for m in range(PAIRS)], [bitext.target.words(m) for m in range(PAIRS)]
    pairs = [heads.pair(m).reshape(LAYERS, HEADS, *heads.shapes[m]) for m in range(PAIRS)]
    blank = (np.zeros(0, np.int64), 0)
    words = [[*side, blank] for side in heads.words]
    bitext = Bitext.from_sentences(*([*side, []] for side in sentences))
    heads = AttentionHeads.from_pairs([*pairs, np.zeros((0, 0, 0, 0))], tuple(words))
    gold = GoldLinks(*(Links.from_lists([*each, []]) for each in (sure, possible)))
    found = rank_heads(heads, bitext, gold, threads=1)
    assert found.linked == sum(len({t for _, t in each}) for each in possible)
    marked = {m: [k for k, word in enumerate(bitext.source.words(m)) if word == "w3"] for m in range(PAIRS)}
    for row in found.table.itertuples(index=False):
        scores = heads.word_scores(HeadChoice(row.layer, row.head, shifted=bool(row.shift)))
        assert (row.hits, row.aer) == pytest.approx(naive(scores, bitext, gold))
        rows = [each for m in range(PAIRS) for each in scores[m]]
        assert row.words == pytest.approx(np.mean([each.sum() for each in rows]), abs=1e-5)
        tokens = heads.scores(HeadChoice(row.layer, row.head, shifted=bool(row.shift)))
        assert row.first == pytest.approx(np.mean([x for m in range(PAIRS) for x in tokens[m][:-1, 0]]), abs=1e-5)
        assert row.punctuation == 0
    assert marked  # punctuation: the same text with one word turned into a comma
    comma = Bitext.from_sentences(
        [[{"w3": ","}.get(word, word) for word in bitext.source.words(m)] for m in range(PAIRS + 1)],
        [bitext.target.words(m) for m in range(PAIRS + 1)],
    )
    row = next(rank_heads(heads, comma, gold, threads=1).table.itertuples(index=False))
    scores = heads.word_scores(HeadChoice(row.layer, row.head, shifted=bool(row.shift)))
    wanted = np.mean([each[marked[m]].sum() for m in range(PAIRS) for each in scores[m]])
    assert row.punctuation == pytest.approx(wanted, abs=1e-5)


def test_the_diagonal_where_one_side_is_twice_as_long():
    """Of two words beside four, the first stands between words 0 and 1, the second between 2 and 3."""
    none = Links.from_lists([[], []])
    counter = BestLinkCounter(GoldLinks(none, none), np.array([[2, 4], [4, 2]], np.int32))
    near, far = [1 / 1.5, 1 / 1.5, 1 / 2.5, 1 / 3.5], [[1 / 1.25, 1 / 2.25], [1 / 1.25, 1 / 1.75]]
    expected = [*near, *near[::-1], *far[0], *far[1], *far[1][::-1], *far[0][::-1]]
    assert counter.positions()["diagonal"].tolist() == pytest.approx(expected)


def test_positions_alone_are_what_a_loop_finds(planted, by_gold):
    _, bitext, gold = planted
    places = {
        "diagonal": lambda t, T, L: (t + 0.5) * L / T - 0.5,
        "same place": lambda t, T, L: t,
        "place before": lambda t, T, L: t - 1,
        "place after": lambda t, T, L: t + 1,
        "first word": lambda t, T, L: 0,
        "last word": lambda t, T, L: L - 1,
    }
    rows = by_gold.positions.set_index("name")
    assert list(rows.index) == ["chance", *places]
    for name, place in places.items():
        matrices = [
            np.array([[1 / (1 + abs(s - place(t, T, L))) for s in range(L)] for t in range(T)])
            for T, L in bitext.shapes.tolist()
        ]
        assert tuple(rows.loc[name, ["hits", "aer"]]) == pytest.approx(naive(matrices, bitext, gold))


def test_chance_is_the_mean_over_all_places(planted, by_gold):
    """The mean of many random links; each target word has one link, to one of L words."""
    _, bitext, gold = planted
    drawn = [
        naive([np.eye(L)[rng.integers(0, L, T)] for T, L in bitext.shapes.tolist()], bitext, gold)
        for rng in map(np.random.default_rng, range(60))
    ]
    row = by_gold.positions.set_index("name").loc["chance"]
    assert tuple(row[["hits", "aer"]]) == pytest.approx(np.mean(drawn, axis=0), abs=0.008)
    lengths = bitext.shapes[:, 0]
    assert row["hits"] == pytest.approx(len(lengths) / lengths.sum())


def test_only_the_planted_heads_are_found(by_gold):
    first, others = by_gold.table.iloc[:2], by_gold.table.iloc[2:]
    assert (first[["p_chance", "p_positions"]] < 0.01).all(axis=None)
    assert (others["p_positions"] > 0.05).all()


@pytest.mark.parametrize("alike", [0, 0.6])
def test_null_heads_are_found_in_one_text_of_twenty(alike):
    """Heads at chance, independent or alike: the smallest of 40 adjusted p is below 0.05 in about 5 % of texts."""
    texts, pairs, heads = 400, 60, 40
    found = 0
    for seed in range(texts):
        rng = np.random.default_rng(seed)
        rows = rng.integers(5, 15, (pairs, 1))
        common = rng.random((pairs, 1)) < alike
        own, shared = rng.binomial(rows, 0.1, (pairs, heads)), rng.binomial(rows, 0.1)
        hits = np.where(common, shared, own) - 0.1 * rows
        draws = resampled_sums(np.concatenate([hits, rows], axis=1), seed, 500)
        adjusted = adjusted_p(hits.sum(axis=0) / rows.sum(), draws[:, :-1] / draws[:, -1:])
        found += adjusted.min() <= 0.05
    assert 0.02 <= found / texts <= 0.08


def test_a_p_value_by_hand():
    """In three resamples the largest deviations are 0, 1 and 2."""
    draws = np.array([[1.0, 3.0, 0.0], [0.0, 4.0, 0.0], [3.0, 2.0, 0.0]])
    observed = np.array([1.0, 3.0, 0.0])
    assert adjusted_p(observed, draws).tolist() == [(1 + 2) / 4, 1 / 4, 1]
    assert adjusted_p(observed, draws[:0]).tolist() == [1, 1, 1]


def test_halves_judge_what_the_other_half_chose(planted, by_gold):
    """By the ranking of each half alone."""
    heads, bitext, gold = planted
    wanted = []
    for low in (0, 1):
        chosen, judged = (np.arange(start, PAIRS, 2) for start in (low, 1 - low))
        parts = []
        for part in (chosen, judged):
            arrays = [heads.pair(m).reshape(LAYERS, HEADS, *heads.shapes[m]) for m in part]
            words = tuple([side[m] for m in part] for side in heads.words)
            sub = AttentionHeads.from_pairs(arrays, words)
            parts.append((sub, bitext.take(part), gold.take(part)))
        best = rank_heads(*parts[0], threads=1)
        other = rank_heads(*parts[1], threads=1).table.set_index(["layer", "head", "shift"])["hits"]
        row = best.table.iloc[0]
        mean = [
            np.mean([parts[1][0].on_words.scores(HeadChoice(*h))[m] for h in best.alignment_heads], axis=0)
            for m in range(len(judged))
        ]
        wanted.append(
            (
                other[tuple(row[["layer", "head", "shift"]])],
                row["hits"],
                naive(mean, *parts[1][1:])[0],
                best.mean["hits"],
            )
        )
    names = ("head", "head_chosen", "heads", "heads_chosen")
    assert tuple(by_gold.halves[name] for name in names) == pytest.approx(np.mean(wanted, axis=0))


def test_other_text_ranks_alike(by_gold, files, capsys, tmp_path):
    arguments = [
        "heads",
        *(str(files / name) for name in ("a.npz", "s", "t")),
        "--gold",
        str(files / "gold"),
        "-q",
    ]
    assert run_program([*arguments, "--json"]) == 0
    (tmp_path / "de.json").write_text(capsys.readouterr().out)
    assert compare_rankings(by_gold, tmp_path / "de.json")["correlation"] == pytest.approx(1)
    whole = json.loads((tmp_path / "de.json").read_text())
    turned = [{**row, "hits": 1 - row["hits"]} for row in whole["heads"]]
    (tmp_path / "fr.json").write_text(json.dumps({**whole, "heads": turned}))
    found = compare_rankings(by_gold, tmp_path / "fr.json")
    assert found["correlation"] == pytest.approx(-1)
    assert found["head"] == by_gold.table["hits"].min()
    assert run_program([*arguments, "--other", str(tmp_path / "fr.json")]) == 0
    assert "fr.json: rank correlation -1.00" in capsys.readouterr().out
    bad = (
        {"heads": []},
        {"heads": [1]},
        {"heads": [{"layer": float("inf"), "head": 0, "shift": 0, "hits": 1}] * 2},
        {"heads": [{"layer": 0, "head": 0}]},
        {"heads": whole["heads"][:1]},
    )
    texts = ["[]", "{", json.dumps({"heads": whole["heads"]}), *(json.dumps({**whole, **each}) for each in bad)]
    elsewhere = [{**row, "layer": row["layer"] + 50} for row in whole["heads"]]
    for text in (*texts, json.dumps({**whole, "heads": elsewhere})):
        (tmp_path / "bad.json").write_text(text)
        assert run_program([*arguments, "--other", str(tmp_path / "bad.json")]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_report_shows_the_heads(files, by_gold, capsys, tmp_path):
    """As a panel; the best head's scores are among the aligners, as in its file."""
    from alignkit.lab.report.build import build_report
    from alignkit.lab.report.page import build_page

    arguments = [
        "heads",
        *(str(files / name) for name in ("a.npz", "s", "t")),
        "--gold",
        str(files / "gold"),
        "-q",
    ]
    assert run_program([*arguments, "--json"]) == 0
    (tmp_path / "heads.json").write_text(capsys.readouterr().out)
    text = [(files / side).read_text().splitlines() for side in "st"]
    report = build_report(text=text, heads=tmp_path / "heads.json")
    best = by_gold.table.iloc[0]
    choice = HeadChoice(int(best["layer"]), int(best["head"]), bool(best["shift"]))
    shown = next(each for each in report.sets if each.name == f"head {choice}.alpha")
    wanted = AttentionHeads.load(files / "a.npz").word_scores(choice).values
    assert shown.scores.values == pytest.approx(wanted, abs=1e-5)
    page = build_page(report).decode()
    panel = page[page.index('<section id="heads">') :].partition("</section>")[0]
    cells = re.findall(r'<td class="m(\d)">(\d+)\s%(<small>\+1</small>)?</td>', panel)
    hits = by_gold.table.set_index(["layer", "head", "shift"])["hits"]
    chance = by_gold.positions.set_index("name").loc["chance", "hits"]
    places = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    for (shade, number, late), (layer, head) in zip(cells, places, strict=True):
        values = [hits[layer, head, shift] for shift in (0, 1)]
        assert int(number) == round(100 * max(values))
        assert bool(late) == (values[1] > values[0])
        assert int(shade) == min(5, max(0, int(6 * (max(values) - chance) / (1 - chance))))
    assert {"0", "5"} <= {shade for shade, _, _ in cells}
    assert f"The best head is {choice}" in " ".join(panel.split())
    assert '<section id="heads">' not in build_page(build_report(text=text)).decode()
