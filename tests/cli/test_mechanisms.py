"""``alignkit mechanisms``, and mechanisms in ``alignkit train``."""

from __future__ import annotations

import json
import subprocess
import sys

from alignkit.aligner import load_aligner
from alignkit.neural.networks.mechanisms import NORMALIZERS, SCORE_FUNCTIONS
from alignkit_cli.main import run


def test_all_are_listed_with_their_equations(capsys):
    assert run(["mechanisms"]) == 0
    printed = capsys.readouterr().out
    for table in (SCORE_FUNCTIONS, NORMALIZERS):
        for name, entry in table.items():
            assert f"  {name} " in printed
            assert entry.equation in printed
            assert entry.source in printed
    assert run(["mechanisms", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["normalizers"]] == list(NORMALIZERS)
    assert {row["name"]: row["number"] for row in found["normalizers"]}["entmax"] == 1.5


def test_the_list_needs_no_torch():
    program = (
        "import sys; from alignkit_cli.main import run; run(['mechanisms']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0


def test_train_takes_a_mechanism(tmp_path, capsys):
    for name in ("x", "y"):
        (tmp_path / name).write_text("\n".join(["a b c", "b c", "c a", "a"] * 12) + "\n")
    command = ["train", str(tmp_path / "x"), str(tmp_path / "y"), "-o", str(tmp_path / "run"), "--tokens", "words"]
    rest = ["--preset", "small", "--steps", "2", "--device", "cpu", "-q", "--heads", "2"]
    rest += ["--set", "network.hidden=8", "--set", "training.label_smoothing=0.1"]
    assert run([*command, *rest, "--attention", "additive+sparsemax"]) == 0
    settings = load_aligner(tmp_path / "run").settings.network
    assert (settings.attention, settings.heads) == ("additive+sparsemax", 2)
    assert load_aligner(tmp_path / "run").settings.training.label_smoothing == 0.1
    assert run([*command, *rest, "--attention", "additive+sparsest"]) == 2
    assert "normalizer of attention must be one of softmax, sparsemax" in capsys.readouterr().err
