"""Mechanisms side by side, on a planted text that is a copy with other words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from alignkit.aligner import load_aligner
from alignkit.errors import AlignkitError
from alignkit.links.links import GoldLinks, Links
from alignkit.mechanism_comparison import (
    MechanismText,
    compare_mechanisms,
    mechanism_settings,
    read_mechanism_text,
    row_shape,
)
from alignkit.neural.settings import LstmSettings, RunSettings, TextSettings, TrainingSettings, TransformerSettings
from alignkit.scores import Scores
from alignkit.text.pairs import LinePairs
from alignkit_cli.main import run

SMALL = RunSettings(
    TextSettings("words"),
    LstmSettings(embedding=16, hidden=16, layers=1, dropout=0.0),
    TrainingSettings(batch=8, learning_rate=2e-2, epochs=4, schedule="dense", keep="best", bleu="never"),
)


def copies(count, seed):
    """Sentences of distinct words a0, a1, ..., each of which is translated to b0, b1, ... in its place."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(9)[: rng.integers(2, 6)] for _ in range(count)]
    return LinePairs(*([" ".join(f"{side}{i}" for i in row) for row in rows] for side in "ab"))


def diagonal(lines):
    links = Links.from_lists([[(i, i) for i in range(len(line.split()))] for line in lines.source])
    return GoldLinks(links, links)


def test_the_table_has_what_was_measured(tmp_path):
    valid = copies(20, 2)
    text = MechanismText(copies(120, 1), valid, diagonal(valid))
    names = ["general+sparsemax", "uniform", "transformer/scaled-dot+softmax"]
    base = SMALL.change(network={"embedding": 16})
    found = compare_mechanisms(tmp_path, text, names, base, device="cpu").set_index("mechanism")
    assert list(found.index) == ["ibm1", *names]
    assert found.aer["ibm1"] < 0.1
    assert (found.ms[names] > 0).all()
    assert found.support["general+sparsemax"] < found.support["uniform"]
    lengths = np.array([len(x.split()) + 2 for x in valid.source])  # BOS and EOS
    rows = np.array([len(y.split()) + 1 for y in valid.target])
    assert found.support["uniform"] == pytest.approx((lengths * rows).sum() / rows.sum())
    assert found.entropy["uniform"] == pytest.approx((np.log(lengths) * rows).sum() / rows.sum(), rel=1e-5)
    assert found.entropy["general+sparsemax"] < found.entropy["uniform"]
    for name in names:
        assert 0 <= found.agreement[name] <= 1
        assert found.chance[name] < 0.5
    again = compare_mechanisms(tmp_path, text, names[:1], base, device="cpu").set_index("mechanism")
    columns = [name for name in found.columns if name != "ms"]
    pd.testing.assert_frame_equal(again[columns], found.loc[["ibm1", names[0]], columns])


def test_row_shapes():
    alpha = Scores.from_matrices(
        [np.array([[0.5, 0.5, 0.0], [0, 0, 0]], np.float32), np.array([[0.4]], np.float32)]
    )
    support, entropy = row_shape(alpha)
    assert support == pytest.approx((2 + 0 + 1) / 3)
    assert entropy == pytest.approx((math.log(2) + 0) / 2)


def test_names_of_architectures():
    assert mechanism_settings(SMALL, "dot").network == SMALL.change(network={"attention": "dot"}).network
    found = mechanism_settings(SMALL, "transformer/scaled-dot+entmax15").network
    assert (found.architecture, found.attention) == ("transformer", "scaled-dot+entmax15")
    small = TransformerSettings(embedding=8, hidden=4, layers=1)
    assert mechanism_settings(SMALL, "transformer/dot", {"transformer": small}).network == replace(
        small, attention="dot"
    )
    for name in ("psychic", "gru/dot", "dot+none"):
        with pytest.raises(AlignkitError, match="must be one of"):
            mechanism_settings(SMALL, name)


def test_the_command_prints_them(tmp_path, capsys):
    for name, lines in zip(("x", "y"), copies(60, 1), strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    call = ["compare-mechanisms", str(tmp_path / "x"), str(tmp_path / "y"), "-o", str(tmp_path / "runs")]
    call += ["--preset", "small", "--steps", "3", "--set", "text.tokens=words", "--set", "network.hidden=8"]
    call += ["--set", "transformer.embedding=12", "--set", "transformer.layers=1"]
    call += [
        "--mechanisms",
        "dot, additive+entmax15, transformer/dot",
        "--device",
        "cpu",
        "-q",
        "--plot",
        str(tmp_path / "p.svg"),
    ]
    assert run(call) == 0
    printed = capsys.readouterr().out
    assert "\nadditive+entmax15 " in printed
    assert "AER" not in printed.splitlines()[0]
    assert b"<svg" in (tmp_path / "p.svg").read_bytes()
    assert run([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["mechanisms"]
    assert [row["mechanism"] for row in found] == ["ibm1", "dot", "additive+entmax15", "transformer/dot"]
    sizes = [
        load_aligner(tmp_path / "runs" / name).settings.network.embedding for name in ("dot", "transformer_dot")
    ]
    assert sizes == [128, 12]
    assert found[0]["aer"] is None
    assert run([*call[:3], "-o", str(tmp_path / "other"), "--mechanisms", "psychic"]) == 2
    assert not (tmp_path / "other").exists()


def test_gold_needs_its_text(tmp_path):
    for name, lines in zip(("x", "y", "gold"), (*copies(30, 1), ["0-0"] * 40), strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    files = tmp_path / "x", tmp_path / "y"
    with pytest.raises(AlignkitError, match="give both"):
        read_mechanism_text(files, None, tmp_path / "gold")
    with pytest.raises(AlignkitError, match="gold links of 40 sentence pairs, but 30 pairs"):
        read_mechanism_text(files, files, tmp_path / "gold")
