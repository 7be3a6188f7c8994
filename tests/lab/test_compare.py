"""Classical against neural on a planted text, through the library and through the command."""

from __future__ import annotations

import json
import shutil
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.comparison import CompareSettings, compare_networks
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.metrics.agreement import agreement
from alignkit.neural import proxy
from alignkit.neural.aligners import load_checkpoint
from alignkit.neural.proxy import PROXY_CACHE
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.neural.training.translation import train_translation
from alignkit.pipeline.align import align
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit_cli.main import run as run_program

from .conftest import settings_of


@pytest.fixture(scope="module")
def found(folder):
    settings = CompareSettings(also=("ibm1.alpha",))
    return compare_networks(str(folder / "general-0"), str(folder / "uniform-0"), settings=settings, device="cpu")


def test_every_ordered_pair_is_there_once(found):
    names = {"ibm1.beta", "ibm1.alpha", "proxy.beta", "lstm.alpha", "lstm.beta", "uniform.beta"}
    assert sorted(zip(found.table.u, found.table.v, strict=True)) == sorted(permutations(names, 2))


def test_the_table_is_that_of_the_scores_themselves(folder, found):
    run = TranslationRun(folder / "general-0")
    ibm1 = fit_ibm1(run.train, iterations=5, null=False)
    aligners = {
        "ibm1": ibm1,
        "lstm": run.load(device="cpu"),
        "uniform": load_checkpoint(folder / "uniform-0", "cpu"),
    }
    aligners["proxy"] = load_checkpoint(run.path / PROXY_CACHE, "cpu")
    scores = {name: aligners[name.split(".")[0]].score(run.valid, name.split(".")[1]) for name in found.table.u}
    for row in found.table.to_dict("records"):
        expected = vars(agreement(scores[row["u"]], scores[row["v"]]))
        assert {name: row[name] for name in expected} == expected
        assert row["rows"] == len(run.valid.target.tokens)


def test_the_proxy_is_kept_and_found_again(folder, found):
    cache = folder / "general-0" / PROXY_CACHE
    before = cache.stat().st_mtime_ns

    steps = []
    again = compare_networks(str(folder / "general-0"), device="cpu", progress=lambda *step: steps.append(step))
    names = ["ibm1.beta", "proxy.beta", "lstm.alpha", "lstm.beta"]
    assert steps == [(n, 4, f"scoring by {name}") for n, name in enumerate(names)]  # and no training
    assert cache.stat().st_mtime_ns == before
    both = again.table.merge(found.table, on=["u", "v"])
    assert np.array_equal(both.agreement_x, both.agreement_y)


def test_heads_and_other_scores_stand_on_the_networks_words(folder, lines, tmp_path):
    """A head is to the network what the same scores given by name are; the diagonal and the aligner come too."""
    pairs = LinePairs(*(side[250:] for side in lines))
    rng = np.random.default_rng(0)
    shapes = [(len(y.split()), len(x.split())) for x, y in zip(*pairs, strict=True)]
    AttentionHeads.from_pairs(rng.random((1, 2, *shape)) for shape in shapes).save(tmp_path / "heads.npz")
    head = f"{tmp_path / 'heads.npz'}:0.1"
    found = compare_networks(str(folder / "general-0"), heads=head, others={"same": head}, device="cpu")
    rows = found.table.set_index(["u", "v"])
    for v in ("lstm.alpha", "proxy.beta", "ibm1.beta", "align.alpha", "diagonal"):
        one, other = (rows.loc[(u, v)].tolist() for u in ("0.1.alpha", "same.alpha"))
        assert one == other
        assert one[4] == sum(height for height, _ in shapes)
    text, scored = (
        Bitext.from_sentences(*([line.split() for line in side] for side in each))
        for each in ([side[:250] for side in lines], pairs)
    )
    wanted = align(text, threads=1).aligner.score(scored).values
    assert found.scores["align.alpha"].values == pytest.approx(wanted, abs=1e-6)
    assert {*found.differences.v} == {*rows.index.levels[0]} - {"0.1.alpha", "diagonal"}


def test_scores_of_words_on_a_networks_subwords(lines, tmp_path):
    """Divided among the subwords of a word, as attention is, the nearest one would not have the largest value of
    the diagonal; scores that know nothing of each other would agree above chance."""
    text = LinePairs(*([line.replace("1", "1 x") for line in side[:40]] for side in lines))
    settings = settings_of(steps=2).change(text={"tokens": "subwords", "pieces": 20})
    train_translation(tmp_path / "run", text, text, settings, device="cpu")
    sizes = [(len(y.split()), len(x.split())) for x, y in zip(*text, strict=True)]
    AttentionHeads.from_pairs(np.ones((1, 1, *size)) for size in sizes).save(tmp_path / "heads.npz")
    rng, others = np.random.default_rng(0), {"a": tmp_path / "a.npz", "b": tmp_path / "b.npz"}
    for path in others.values():
        np.savez(path, *[rng.dirichlet(np.ones(s), t) for t, s in sizes])
    heads = f"{tmp_path / 'heads.npz'}:0.0"
    found = compare_networks(str(tmp_path / "run"), heads=heads, others=others, device="cpu")
    row = found.table.set_index(["u", "v"]).loc[("a.alpha", "b.alpha")]
    assert row.low < row.chance < row.high
    for matrix in found.scores["diagonal"]:
        t, s = np.indices(matrix.shape)
        distances = np.abs((t + 0.5) / len(matrix) - (s + 0.5) / matrix.shape[1])
        assert (distances[np.arange(len(matrix)), matrix.argmax(axis=1)] <= distances.min(axis=1) + 1e-6).all()


def test_pairs_with_a_blank_side_do_not_count(folder, lines):
    """BOS and EOS alone would be compared there, which agree by chance."""
    tables = []
    for more in (((), ()), (("", lines[0][0]), (lines[1][0], ""))):
        pairs = LinePairs(*([*side[250:], *blank] for side, blank in zip(lines, more, strict=True)))
        tables.append(compare_networks(str(folder / "general-0"), pairs=pairs, device="cpu").table)
    columns = ["u", "v", "agreement", "chance", "rows", "ties"]
    assert tables[0][columns].equals(tables[1][columns])


def test_a_checkpoint_away_from_its_run_needs_its_text(folder, lines, tmp_path, monkeypatch):
    moved = str(shutil.copy(folder / "general-0" / "best.pt", tmp_path / "moved.pt"))
    with pytest.raises(AlignkitError, match="--train SRC TGT"):
        compare_networks(moved, device="cpu")
    training = LinePairs(*(side[:250] for side in lines))
    pairs = LinePairs(*(side[250:] for side in lines))
    with pytest.raises(AlignkitError, match="not trained on this"):
        compare_networks(moved, training=pairs, pairs=pairs, device="cpu")
    with pytest.raises(AlignkitError, match="give SRC and TGT"):
        compare_networks(moved, training=training, device="cpu")
    there = compare_networks(moved, training=training, pairs=pairs, device="cpu")
    at_home = compare_networks(str(folder / "general-0"), pairs=pairs, device="cpu")
    assert there.table.equals(at_home.table)
    kept, held = proxy.proxy_of, []

    # A run's own held-out text chooses the epoch of its proxy.
    monkeypatch.setattr(proxy, "proxy_of", lambda *given: held.append(given[2]) or kept(*given))
    few = compare_networks(str(folder / "general-0"), pairs=training, device="cpu")
    assert held[0].fingerprint() == at_home.pairs.fingerprint() != few.pairs.fingerprint()


def test_command(folder, found, capsys):
    arguments = ["compare", "--neural", folder / "general-0", "--uniform", folder / "uniform-0"]
    arguments += ["--also", "ibm1.alpha", "--device", "cpu"]
    assert run_program([*map(str, arguments), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    fields = ["u", "v", "agreement", "chance", "low", "high", "rows", "ties"]
    assert all(list(row) == fields for row in result["agreement"])
    assert [row["agreement"] for row in result["agreement"]] == found.table.agreement.tolist()
    assert run_program([*map(str, arguments), "--json", "--percent", "11/2"]) == 0
    assert json.loads(capsys.readouterr().out)["percent"] == 5.5
    assert run_program([*map(str, arguments)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    header = next(line for line in lines if line.startswith("u \\ v"))
    assert header.split()[3:] == list(dict.fromkeys(found.table.u))
    first = found.table.iloc[0]
    assert f"{100 * first.agreement:.1f} ({100 * first.chance:.1f})" in text


def test_the_command_shows_what_agrees_with_a_head_more(folder, lines, tmp_path, capsys):
    texts = [str(tmp_path / name) for name in "xy"]
    for path, side in zip(texts, lines, strict=True):
        Path(path).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    shapes = [(len(y.split()), len(x.split())) for x, y in zip(*lines, strict=True)]
    AttentionHeads.from_pairs(np.eye(*shape)[None, None] for shape in shapes).save(tmp_path / "heads.npz")
    call = ["compare", *texts, "--heads", f"{tmp_path / 'heads.npz'}:0.0", "--threads", "1"]
    assert run_program([*call, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["differences"]
    assert [list(row) for row in rows] == [["u", "v", "w", "difference", "low", "high"]] * 3
    assert run_program(call) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "A(u, v) minus A(u, w), each above chance, with 95 % intervals:" in shown
    for row, line in zip(rows, shown[-3:], strict=True):
        numbers = [f"{100 * row[name]:.1f}" for name in ("difference", "low", "high")]
        wanted = [row["u"], row["v"], row["w"], numbers[0], f"({numbers[1]}", "to", f"{numbers[2]})"]
        assert line.split() == wanted
    assert rows[0]["high"] < 0  # the head is a diagonal


def test_the_metric_can_be_chosen(folder, found, capsys):
    """Tau is symmetric, and agrees with the library's; its table has its own name."""
    arguments = ["compare", "--neural", str(folder / "general-0"), "--device", "cpu"]
    assert run_program([*arguments, "--metric", "tau", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tau"]
    values = {(row["u"], row["v"]): row["tau"] for row in rows}
    assert all(list(row) == ["u", "v", "tau", "chance", "low", "high", "rows", "undefined"] for row in rows)
    assert values["lstm.alpha", "ibm1.beta"] == values["ibm1.beta", "lstm.alpha"]
    assert values["ibm1.beta", "proxy.beta"] > 0.3
    assert run_program([*arguments, "--metric", "tau"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("tau(u, v): Kendall's tau-b")
    assert f"{values['ibm1.beta', 'proxy.beta']:.3f} (0.000)" in text
    assert run_program([*arguments, "--metric", "aer"]) == 2
    assert "'agreement', 'tau'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--neural", "absent"], "absent"),
        (["--uniform", "RUN"], "--neural"),
        (["--neural", "RUN", "--uniform", "RUN"], "not trained with uniform"),
        (["RUN/log.jsonl", "RUN/log.jsonl", "--also", "ov"], "--neural"),
        (["--beta", "RUN/log.jsonl", "--neural", "RUN"], "--beta goes only with --heads"),
        (["--heads", "RUN/log.jsonl"], "--heads needs the text"),
        (["--neural", "RUN", "--metric", "tau", "--percent", "9"], "--percent goes only with --metric agreement"),
        (["--neural", "RUN", "--lowercase"], "--lowercase goes only with SRC and TGT, or --train"),
        (["--neural", "RUN", "--percent", "0"], "percentage"),
        (["--neural", "RUN", "--percent", "five"], "percentage"),
        (["--neural", "RUN", "--percent", "0.05"], "for 5 per cent give 5"),
        (["--neural", "RUN", "absent", "absent"], "absent"),
        (["--neural", "RUN", "--device", "abacus"], "abacus"),
        (["--neural", "RUN/log.jsonl"], "log.jsonl"),
        (["--neural", "RUN/proxy.pt"], "not a network"),
    ],
)
def test_bad_input(folder, found, capsys, arguments, part):
    full = [argument.replace("RUN", str(folder / "general-0")) for argument in arguments]
    assert run_program(["compare", *full]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert part in err


@pytest.mark.parametrize("sides", [("\n \n", " \n\n"), ("\nx\n", "y\n\n")])
@pytest.mark.parametrize("option", [[], ["--train"]])
def test_a_text_without_words_is_refused(folder, tmp_path, capsys, sides, option):
    """The table would be of nothing but ends of sentences."""
    for name, text in zip("xy", sides, strict=True):
        (tmp_path / name).write_text(text)
    call = ["compare", "--neural", folder / "general-0", *option, tmp_path / "x", tmp_path / "y"]
    assert run_program([*map(str, call), "--device", "cpu"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "no pair with words on both sides" in err


def test_delta_is_compared_if_asked_for(folder, found):
    settings = CompareSettings(also=("delta",))
    table = compare_networks(str(folder / "general-0"), settings=settings, device="cpu").table
    network, valid = load_checkpoint(folder / "general-0", "cpu"), TranslationRun(folder / "general-0").valid
    row = table.set_index(["u", "v"]).loc[("lstm.delta", "lstm.alpha")]
    assert row.agreement == agreement(network.score(valid, "delta"), network.score(valid, "alpha")).agreement
