"""Which head aligns: heads whose alignment is planted are found, with their shift."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from scipy.stats import spearmanr

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError, InputError
from alignkit.lab.heads.combination import fit_combination
from alignkit.lab.heads.ranking import compare_rankings, rank_heads, rank_heads_of_file
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.lab.report.build import build_report
from alignkit.lab.report.page import build_page
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.agreement import agreement
from alignkit.metrics.intervals import adjusted_p, resampled_sums
from alignkit.metrics.protocol import MetricSettings
from alignkit.pipeline.align import align
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit_cli.main import run as run_program

PAIRS, LAYERS, HEADS = 40, 3, 4
GOOD, LATE = (1, 2), (2, 0)  # the planted heads: one as it is, one a step late
WEAK = (0, 3)  # somewhat better than others
BLANK = 7  # the pair without a word


@pytest.fixture(scope="module")
def planted():
    """Text, gold links, and attention (layers, heads, T, L) between subwords, mostly with a </s> on both sides.

    Sentences are permuted, every third one not, and words are translated one by one; some of the links are only
    possible, and some words have none.
    """
    rng = np.random.default_rng(11)
    text, gold, pairs, words = ([], []), ([], []), [], ([], [])
    for m in range(PAIRS):
        length = 0 if m == BLANK else int(rng.integers(4, 9))
        T = length - m % 2 if length else 0
        places = (rng.permutation(length) if m % 3 else np.arange(length))[:T]
        text[0].append([f"w{i}" if i else "," for i in rng.integers(0, 9, length)])
        text[1].append([f"v{s}" for s in places])
        links = [(int(s), t) for t, s in enumerate(places) if rng.random() < 0.9]
        gold[0].append([link for link in links if rng.random() < 0.8])
        gold[1].append(sorted({*links, *((int(s), int(s) // 2) for s in places[:2])}))
        rows = np.repeat(np.arange(T), rng.integers(1, 3, T))
        end = [-1] if length and m % 4 else []
        if length:
            attention = rng.dirichlet(np.ones(length + len(end)), (LAYERS, HEADS, len(rows) + len(end)))
            noisy = np.where(rng.random(T) < 0.1, rng.integers(0, length, T), places)
            right = np.eye(length + len(end))[noisy[rows]]
            attention[GOOD][: len(rows)] += 2 * right
            attention[LATE][1:] += 2 * right[: len(attention[LATE]) - 1]
            attention[WEAK][: len(rows)] += 0.2 * right
            pairs.append(attention / attention.sum(axis=-1, keepdims=True))
        else:
            pairs.append(np.zeros((0, 0, 0, 0)))
        words[0].append((np.array([*range(length), *end], np.int64), length))
        words[1].append((np.array([*rows, *end], np.int64), T))
    gold = GoldLinks(*map(Links.from_lists, gold))
    heads = replace(AttentionHeads.from_pairs(pairs, words), made={"model": "x"})
    return heads, Bitext.from_sentences(*text), gold


@pytest.fixture(scope="module")
def by_gold(planted):
    heads, bitext, gold = planted
    return rank_heads(heads, bitext, gold, resamples=30, seed=3, threads=1)


def places_of(t, T, L):
    """Where a target word looks by its position alone."""
    return {
        "diagonal": (t + 0.5) * L / T - 0.5,
        "same place": t,
        "place before": t - 1,
        "place after": t + 1,
        "first word": 0,
        "last word": L - 1,
    }


def counted(matrices, gold):
    """(M, 3): the links of each target word with its best source word, those that are sure, those possible."""
    rows = []
    for matrix, *known in zip(matrices, gold.sure, gold.possible, strict=True):
        sure, possible = ({tuple(link) for link in links.tolist()} for links in known)
        links = [(row.index(max(row)), t) for t, row in enumerate(matrix.tolist()) if max(row) > 0]
        rows.append((len(links), len(sure & set(links)), len((sure | possible) & set(links))))
    return np.array(rows, np.float64)


def naive_ranking(heads, bitext, gold, settings):
    """(rows of the heads in order, of positions, counts by head): as :func:`rank_heads`, word by word."""
    rows, counts = [], []
    for shift in (0, 1):
        for layer, head in heads.heads:
            choice = HeadChoice(layer, head, bool(shift))
            matrices, tokens = list(heads.word_scores(choice)), heads.scores(choice)
            is_mark = [[word == "," for word in bitext.source.words(m)] for m in range(PAIRS)]
            shares = [(row.sum(), row[is_mark[m]].sum()) for m in range(PAIRS) for row in matrices[m]]
            firsts = [tokens[m][heads.words[1][m][0] >= 0, 0] for m in range(PAIRS) if m != BLANK]
            names = ("words", "punctuation", "first")
            means = (*np.mean(shares, axis=0), np.mean(np.concatenate(firsts)))
            rows.append({"layer": layer, "head": head, "shift": shift, **dict(zip(names, means, strict=True))})
            counts.append(counted(matrices, gold))
    shapes = bitext.shapes.tolist()
    sure, possible = (np.array([len(each) for each in links], float) for links in (gold.sure, gold.possible))
    linked = np.array([len({t for _, t in links.tolist()}) for links in gold.possible], float)
    rows.append({"name": "chance"})  # each of the L source words of a target word is as likely
    counts.append(
        np.array([(T, a / max(L, 1), b / max(L, 1)) for (T, L), a, b in zip(shapes, sure, possible, strict=True)])
    )
    for name in places_of(0, 1, 1):
        rows.append({"name": name})
        wanted = [
            np.array([[-abs(s - places_of(t, T, L)[name]) for s in range(L)] for t in range(T)]) for T, L in shapes
        ]
        counts.append(counted([np.exp(each) for each in wanted], gold))
    columns = np.concatenate([np.stack([linked, sure, possible], axis=1), *counts], axis=1)
    observed, draws = columns.sum(axis=0)[None], resampled_sums(columns, settings["seed"], settings["resamples"])
    hits, aers = [], []
    for sums in (observed, draws):
        found, in_sure, in_possible = (sums[:, 3 + k :: 3] for k in range(3))
        hits.append(in_possible / sums[:, :1])
        aers.append(1 - (in_sure + in_possible) / (found + sums[:, 1:2]))
    for k, row in enumerate(rows):
        for name, (own, drawn) in (("", hits), ("aer", aers)):
            low, high = np.percentile(drawn[:, k], (2.5, 97.5))
            row[name or "hits"] = own[0, k]
            row |= {f"{name}_low".strip("_"): low, f"{name}_high".strip("_"): high}
        row["count"] = counts[k][:, 2].sum()
    K = 2 * len(heads.heads)
    own, drawn = hits[0][0], hits[1]
    against = [adjusted_p(own[:K] - own[k], drawn[:, :K] - drawn[:, [k]]) for k in range(K, len(own))]
    best = int(np.argmax(own[:K]))
    tied = adjusted_p(own[best] - own[:K], drawn[:, [best]] - drawn[:, :K]) > 0.05
    for k in range(K):
        p_positions = max(p[k] for p in against[1:])
        rows[k] |= {"p_chance": against[0][k], "p_positions": p_positions, "tied": bool(tied[k])}
    in_order = sorted(rows[:K], key=lambda row: -row["hits"])
    shifted = np.percentile(drawn[:, best % (K // 2) + K // 2] - drawn[:, best % (K // 2)], (2.5, 97.5))
    return in_order, rows[K:], shifted


def test_every_number_is_what_loops_find(planted, by_gold):
    heads, bitext, gold = planted
    in_order, of_positions, shifted = naive_ranking(heads, bitext, gold, {"seed": 3, "resamples": 30})
    for table, wanted in ((by_gold.table, in_order), (by_gold.positions, of_positions)):
        assert len(table) == len(wanted)
        for row, other in zip(table.to_dict("records"), wanted, strict=True):
            assert row == pytest.approx(other, abs=1e-6)
    known = by_gold.table["p_positions"]
    assert ((known > by_gold.table["p_chance"]) & (known < 1)).any()  # positions are not chance
    assert by_gold.linked == sum(len({t for _, t in links.tolist()}) for links in gold.possible)
    assert (by_gold.pairs, by_gold.made) == (PAIRS, {"model": "x"})
    first = in_order[0]
    hits = {(row["layer"], row["head"], row["shift"]): row["hits"] for row in in_order}
    key = first["layer"], first["head"]
    wanted = {"layer": key[0], "head": key[1], "difference": hits[*key, 1] - hits[*key, 0]}
    assert by_gold.difference == pytest.approx({**wanted, "low": shifted[0], "high": shifted[1]})


@pytest.mark.parametrize("count", [3, 10])
def test_good_heads_are_averaged(count):
    """Each word is linked by one head, so that the best mean is that of all heads, but of eight at most."""
    rng, shares = np.random.default_rng(0), np.arange(count, 0, -1)
    lengths, pairs, links, owned = (30, 40, 50), [], [], np.zeros(count)
    for length in lengths:
        owners = rng.choice(count, length, p=shares / shares.sum())
        pair = np.zeros((1, count, length, length))
        links.append([(int(s), t) for t, s in enumerate(rng.permutation(length))])
        for s, t in links[-1]:
            pair[0, owners[t], t, s] = 1
        pairs.append(pair)
        owned += np.bincount(owners, minlength=count)
    gold = GoldLinks(*[Links.from_lists(links)] * 2)
    text = Bitext.from_sentences(*[[["a"] * length for length in lengths]] * 2)
    found = rank_heads(AttentionHeads.from_pairs(pairs), text, gold, threads=1)
    best = np.argsort(-owned, kind="stable")[:8]
    assert found.alignment_heads == [(0, k) for k in best]
    assert found.mean["hits"] == pytest.approx(owned[best].sum() / owned.sum())


def test_halves_judge_what_the_other_half_chose(planted, by_gold):
    heads, _, gold = planted
    choices = [HeadChoice(*pair, shifted) for shifted in (False, True) for pair in heads.heads]
    matrices = [list(heads.word_scores(choice)) for choice in choices]

    def hits(each, half):
        counts = counted([each[m] for m in half], gold.take(half))
        return counts[:, 2].sum() / sum(len({t for _, t in gold.possible[m].tolist()}) for m in half)

    def best_mean(half):
        """The mean with most hits of the best one, two, ... eight heads that are not shifted, and these heads."""
        plain = matrices[: len(heads.heads)]
        ranked = sorted(range(len(plain)), key=lambda k: -hits(plain[k], half))[:8]
        means = [[sum(plain[k][m] for k in ranked[:n]) for m in range(PAIRS)] for n in range(1, 9)]
        n = int(np.argmax([hits(mean, half) for mean in means]))
        return means[n], [heads.heads[k] for k in ranked[: n + 1]]

    halves, wanted = (np.arange(0, PAIRS, 2), np.arange(1, PAIRS, 2)), []
    by_head = [[hits(each, half) for each in matrices] for half in halves]
    for k, half in enumerate(halves):
        best, (mean, _) = int(np.argmax(by_head[k])), best_mean(half)
        wanted.append((by_head[1 - k][best], by_head[k][best], hits(mean, halves[1 - k]), hits(mean, half)))
    names = ("head", "head_chosen", "heads", "heads_chosen")
    assert tuple(by_gold.halves[name] for name in names) == pytest.approx(np.mean(wanted, axis=0))
    assert by_gold.halves["correlation"] == pytest.approx(spearmanr(*by_head).statistic)
    mean, chosen = best_mean(np.arange(PAIRS))
    assert by_gold.alignment_heads == chosen
    assert by_gold.mean["hits"] == pytest.approx(hits(mean, np.arange(PAIRS)))


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


def test_rows_without_attention_are_no_hits():
    """Without </s>, the last word has no shifted row; a row of ties would agree with everything."""
    links = Links.from_lists(
        [[(int(s), t) for t, s in enumerate(places)] for places in ([3, 1, 0, 2], [0, 4, 3, 2, 1])]
    )
    bitext, gold = Bitext.from_sentences(*[[["a"] * 4, ["a"] * 5]] * 2), GoldLinks(links, links)
    reference = sharp(bitext, gold)
    found = rank_heads(AttentionHeads.from_scores(reference), bitext, gold, reference=reference, threads=1)
    rows = found.table.set_index("shift")
    assert rows.loc[0, "hits"] == rows.loc[0, "agreement"] == 1
    assert rows.loc[1, "hits"] < 0.05
    assert rows.loc[1, "agreement"] < 0.05
    # 5 % of 4 or 5 words is one: a place drawn at random agrees in one of as many, except for the last rows.
    assert rows.loc[0, "agreement_chance"] == pytest.approx((4 / 4 + 5 / 5) / 9)
    assert rows.loc[1, "agreement_chance"] == pytest.approx((3 / 4 + 4 / 5) / 9)


def test_logarithms_of_attention_are_ranked_alike(planted):
    _, bitext, gold = planted
    rng = np.random.default_rng(3)
    values = Scores.zeros(bitext.shapes)
    values = replace(values, values=rng.uniform(0.1, 0.9, len(values.values)).astype(np.float32))
    logarithms = replace(values, values=np.log(values.values))
    tables = [
        rank_heads(AttentionHeads.from_scores(each), bitext, gold, threads=1).table
        for each in (values, logarithms)
    ]
    plain, logs = (table[table["shift"] == 0].iloc[0] for table in tables)
    assert plain["hits"] == logs["hits"] > 0
    assert plain["count"] == logs["count"]


def test_one_pair_with_gold_links_has_no_interval(planted):
    heads, bitext, gold = planted
    one = [[*map(tuple, each.tolist())] if m == 1 else [] for m, each in enumerate(gold.sure)]
    table = rank_heads(heads, bitext, GoldLinks(*[Links.from_lists(one)] * 2), threads=1).table
    assert table[["low", "high", "aer_low", "aer_high"]].isna().all(axis=None)
    assert (table["hits"] > 0).any()
    assert (table["p_chance"] == 1).all()


def test_what_is_refused(planted):
    heads, bitext, gold = planted
    with pytest.raises(AlignkitError, match=f"links are of {PAIRS} pairs, the text has {PAIRS - 1}"):
        rank_heads(heads, bitext.block(0, PAIRS - 1), gold)
    with pytest.raises(AlignkitError, match=f"heads are of {PAIRS} pairs, the text has {PAIRS - 1}"):
        rank_heads(heads, bitext.block(0, PAIRS - 1), gold.take(np.arange(PAIRS - 1)))


@pytest.fixture(scope="module")
def files(planted, tmp_path_factory):
    heads, bitext, gold = planted
    folder = tmp_path_factory.mktemp("heads")
    heads.save(folder / "a.npz")
    for name, side in (("s", bitext.source), ("t", bitext.target)):
        (folder / name).write_text("".join(" ".join(side.words(m)) + "\n" for m in range(PAIRS)))
    lines = []
    for known in zip(gold.sure, gold.possible, strict=True):
        sure, possible = (each.tolist() for each in known)
        lines.append(" ".join(f"{s}{'-' if [s, t] in sure else 'p'}{t}" for s, t in possible))
    (folder / "gold").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def arguments(files):
    return ["heads", *(str(files / name) for name in ("a.npz", "s", "t")), "--gold", str(files / "gold"), "-q"]


def test_the_command_finds_them(arguments, capsys, tmp_path):
    config = tmp_path / "config.json"
    assert run_program([*arguments, "--json", "--export", "ctranslate2", str(config)]) == 0
    found = json.loads(capsys.readouterr().out)
    first = {(row["layer"], row["head"], row["shift"]) for row in found["heads"][:2]}
    assert first == {(*GOOD, 0), (*LATE, 1)}
    assert json.loads(config.read_text())["alignment_heads"][0] == list(GOOD) == found["alignment_heads"][0]
    assert len(found["heads"]) == 2 * LAYERS * HEADS
    assert run_program(arguments) == 0
    out = capsys.readouterr().out
    head, *rows = (re.split("  +", line.strip()) for line in out.split("\n\n")[1].splitlines())
    assert head == ["head", "hits %", "interval", "AER %", "p", "words %", "punct. %", "first %"]
    columns = ("hits", "low", "high", "aer", "words", "punctuation", "first")
    for row, shown in zip(found["heads"][:10], rows[:10], strict=True):
        hits, low, high, aer, *others = (f"{100 * row[name]:.1f}" for name in columns)
        p = f"{max(row['p_chance'], row['p_positions']):.3f}"
        place = f"{row['layer']}.{row['head']}{'+1' * row['shift']}"
        assert shown == [place, hits, f"({low} to {high})", aer, p, *others, *("=" * row["tied"])]
    for row, shown in zip(found["positions"], rows[10:-1], strict=True):
        hits, low, high, aer = (f"{100 * row[name]:.1f}" for name in columns[:4])
        assert shown == [row["name"], hits, f"({low} to {high})", aer]
    assert "14 heads more" in out
    assert "Shift:" in out
    assert "alignment_heads: 1.2" in out


def test_files_are_ranked_as_what_they_hold(planted, by_gold, files):
    heads, bitext, gold = planted
    names, steps = [files / name for name in ("a.npz", "s", "t")], []
    settings = MetricSettings(resamples=30, seed=3, threads=1)
    by_both = {"gold": files / "gold", "settings": settings}
    found = rank_heads_of_file(*names, **by_both, combine=True, progress=lambda *step: steps.append(step[:2]))
    assert_frame_equal(found.table, by_gold.table)
    assert steps == [(k + 1, 2 * len(heads.heads)) for k in range(2 * len(heads.heads))]
    aligner, error = fit_combination(heads, bitext, gold)
    assert (found.combined[0].heads, found.combined[1]) == (aligner.heads, error)
    with_itself = rank_heads_of_file(*names, **by_both, beta=files / "a.npz").table
    assert (with_itself[with_itself["shift"] == 0]["agreement"] == 1).all()
    fit_ibm1(bitext).save(files / "m.npz")
    aligned = align(bitext, model=files / "m.npz")
    links, reference = GoldLinks(aligned.links, aligned.links), aligned.score("alpha")
    found = rank_heads_of_file(*names, model=files / "m.npz", settings=settings)
    wanted = rank_heads(heads, bitext, links, reference=reference, settings=settings)
    assert found.combined is None
    assert_frame_equal(found.table, wanted.table)


def test_files_that_do_not_fit_are_refused(files, tmp_path):
    texts, bad = [files / name for name in ("s", "t")], tmp_path / "bad"
    for content, problem in (
        ("0-0\n", f"has 1 pair, the text has {PAIRS}"),
        ("\n" * PAIRS, "has no links, so there is nothing to rank heads by"),
        ("0-0 0p77\n" + "\n" * (PAIRS - 1), "line 1: link 0-77 points outside"),
    ):
        bad.write_text(content)
        with pytest.raises(InputError, match=f"bad.*{problem}"):
            rank_heads_of_file(files / "a.npz", *texts, gold=bad)
    with pytest.raises(AlignkitError, match="either against gold links or against a model"):
        rank_heads_of_file(files / "a.npz", *texts, gold=bad, model=bad)
    bad.write_text("x\n" * PAIRS)
    with pytest.raises(InputError, match=r"a\.npz: line 1: the heads are of"):
        rank_heads_of_file(files / "a.npz", bad, bad)


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


def test_rankings_of_several_texts_are_compared_beside_chance():
    """Of 15 heads that all texts have, by slow and obvious means; a head counts once, as it is better."""
    rng = np.random.default_rng(5)
    heads = list(product(range(3), range(5)))
    own = dict(zip(heads, rng.random(15), strict=True))
    texts = {}
    for name, noise in (("de", 0.1), ("fr", 0.3), ("ja", 9.0)):
        hits = {head: value + noise * rng.random() for head, value in own.items()}
        late = rng.integers(0, 2, 15)
        texts[name] = {(*head, int(k)): hits[head] for head, k in zip(heads, late, strict=True)}
        texts[name] |= {(*head, 1 - int(k)): hits[head] / 2 for head, k in zip(heads, late, strict=True)}
    texts["fr"] |= {(7, 7, 0): 99.0}  # a head that the others lack
    table, common = compare_rankings(texts)
    best = {name: {head: max(hits[*head, 0], hits[*head, 1]) for head in heads} for name, hits in texts.items()}
    top = {name: sorted(heads, key=lambda head: -best[name][head])[:10] for name in texts}
    assert common == [head for head in heads if all(head in each for each in top.values())]
    assert [(row.text, row.other) for row in table.itertuples()] == list(combinations(texts, 2))
    for row in table.itertuples():
        one, other = best[row.text], best[row.other]
        values = [[each[head] for head in heads] for each in (one, other)]
        wanted = spearmanr(*values, alternative="greater")
        assert row.correlation == pytest.approx(wanted.statistic)
        assert row.p == pytest.approx(wanted.pvalue, abs=0.05)
        assert row.shared == len({*top[row.text]} & {*top[row.other]})
        assert row.expected == pytest.approx(100 / 15)
        as_many = sum(comb(10, n) * comb(5, 10 - n) for n in range(row.shared, 11))
        assert row.p_shared == pytest.approx(as_many / comb(15, 10))
        assert (row.here, row.there) == (one[top[row.other][0]], other[top[row.text][0]])
    assert table.p[0] < 0.01 < table.p[1]
    two = {(0, 0, 0): 0.1, (0, 1, 0): 0.2}
    row = compare_rankings({"de": two, "fr": two})[0].iloc[0]  # every other permutation is the same
    assert [row["p"], row["shared"], row["expected"], row["p_shared"]] == pytest.approx([0.5, 2, 2, 1], abs=0.05)


def test_other_text_ranks_alike(by_gold, arguments, capsys, tmp_path):
    assert run_program([*arguments, "--json"]) == 0
    (tmp_path / "de.json").write_text(capsys.readouterr().out)
    whole = json.loads((tmp_path / "de.json").read_text())
    turned = [{**row, "hits": 1 - row["hits"]} for row in whole["heads"]]
    (tmp_path / "fr.json").write_text(json.dumps({**whole, "heads": turned}))
    call = [*arguments, "--other", str(tmp_path / "fr.json"), "--other", str(tmp_path / "de.json")]
    assert run_program([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = whole["file"], *(str(tmp_path / name) for name in ("fr.json", "de.json"))
    assert [(row["text"], row["other"]) for row in found["others"]] == list(combinations(names, 2))
    same = found["others"][1]
    assert (same["correlation"], same["shared"]) == (pytest.approx(1), 10)
    assert same["here"] == same["there"] == by_gold.table["hits"].max()
    assert run_program(call) == 0
    shown = capsys.readouterr().out.splitlines()
    listed = ", ".join(f"{layer}.{head}" for layer, head in found["common"])
    assert shown[-1] == f"Among the best ten on all texts: {listed}."
    numbers = shown[-4].split()[2:]
    assert numbers[:5] == ["1.00", "0.001", "10", f"{100 / 12:.1f}", f"{1 / comb(12, 10):.3f}"]
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


def test_the_report_shows_the_heads(files, arguments, by_gold, capsys, tmp_path):
    """As a panel; the best head's scores are among the aligners, as in its file."""
    assert run_program([*arguments, "--json"]) == 0
    (tmp_path / "heads.json").write_text(capsys.readouterr().out)
    text = [(files / side).read_text().splitlines() for side in "st"]
    scores = {"late": f"{files / 'a.npz'}:{LATE[0]}.{LATE[1]}+1"}
    report = build_report(text=text, heads=tmp_path / "heads.json", scores=scores)
    best = by_gold.table.iloc[0]
    choice = HeadChoice(int(best["layer"]), int(best["head"]), bool(best["shift"]))
    for name, each in ((f"head {choice}", choice), ("late", HeadChoice(*LATE, shifted=True))):
        shown = next(scores for scores in report.sets if scores.name == f"{name}.alpha")
        wanted = AttentionHeads.load(files / "a.npz").word_scores(each).values
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
