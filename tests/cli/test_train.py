"""``alignkit train`` through real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import alignkit
from alignkit.aligner import load_aligner
from alignkit.neural.training.run_directory import TranslationRun
from alignkit_cli.main import run
from tests.neural.conftest import random_lines

QUICK = [
    *("--preset", "small", "--set", "text.tokens=words", "--steps", "2", "--set", "training.batch=4"),
    *("--device", "cpu", "--threads", "1"),
]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = []
    for seed, name in enumerate(("train.de", "train.en", "valid.de", "valid.en")):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in random_lines(40 if seed < 2 else 6, seed)))
        names.append(str(path))
    return names


def test_a_run_is_trained_and_goes_on(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["train", *files[:2], "--valid", *files[2:], "-o", str(tmp_path / "run"), *QUICK]
    assert run(call) == 0
    first = capsys.readouterr()
    assert first.out == ""
    assert "best at step" in first.err
    aligner = load_aligner(tmp_path / "run")
    valid = TranslationRun(str(tmp_path / "run")).valid
    assert len(list(aligner.score(valid, "alpha"))) == len(valid) == 6
    texts = [Path(file).read_text().split("\n")[:-1] for file in files]
    options = {"set": ["text.tokens=words", "training.batch=4"], "steps": 2, "device": "cpu", "threads": 1}
    given = alignkit.read_bitext(*files[:2]), list(zip(*texts[2:], strict=True))
    again = alignkit.train(given[0], valid=given[1], output=tmp_path / "new", preset="small", **options)
    assert np.array_equal(again.score(valid, "beta").values, aligner.score(valid, "beta").values)
    assert alignkit.train(*files[:2], valid=given[1], preset="small", **options).metrics == again.metrics
    assert list(tmp_path.glob("*.pt")) == []
    assert run(call) == 0
    assert "this run is finished" in capsys.readouterr().err
    assert run([*call, "--seed", "5"]) == 2
    error = capsys.readouterr().err
    assert "settings.training.seed: 0 before, now 5" in error
    assert len(error.strip().splitlines()) == 1
    assert run(["train", *files[2:], "--valid", *files[2:], *call[6:]]) == 2
    assert "settings or text (text.training: not the same as before); give the same" in capsys.readouterr().err


def test_without_valid_the_end_is_held_out(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", *files[:2], "-o", str(tmp_path / "run"), *QUICK, "--attention", "uniform"]) == 0
    assert "2 pairs at the end held out" in capsys.readouterr().err
    found = TranslationRun(tmp_path / "run")
    assert (len(found.train), len(found.valid)) == (38, 2)
    assert load_aligner(tmp_path / "run").name == "uniform"


def test_links_guide_a_text_whose_end_is_held_out(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = zip(*(Path(file).read_text().splitlines() for file in files[:2]), strict=True)
    links = ["0-0\n" if x.split() and y.split() else "\n" for x, y in pairs]
    (tmp_path / "links").write_text("".join(links))
    (tmp_path / "short").write_text("".join(links[:38]))
    call = ["train", *files[:2], *QUICK, "--set", "training.warmup=0", "-o"]
    assert run([*call, str(tmp_path / "plain")]) == 0
    assert run([*call, str(tmp_path / "run"), "--guide", str(tmp_path / "links")]) == 0
    losses = [TranslationRun(tmp_path / name).log.series("train.loss") for name in ("plain", "run")]
    assert losses[0] != losses[1]
    capsys.readouterr()
    assert run([*call, str(tmp_path / "new"), "--guide", str(tmp_path / "short")]) == 2
    assert "has links for 38 pairs, the text has 40" in capsys.readouterr().err
    (tmp_path / "outside").write_text("".join(["0-0\n", "99-0\n", *links[2:]]))
    assert run([*call, str(tmp_path / "new"), "--guide", str(tmp_path / "outside")]) == 2
    assert "outside, line 2: link 99-0 points outside" in capsys.readouterr().err
    (tmp_path / "blank").write_text("\n" * len(links))
    assert run([*call, str(tmp_path / "new"), "--guide", str(tmp_path / "blank")]) == 2
    assert "blank: has no links, so there is nothing to guide attention" in capsys.readouterr().err
    for useless in (
        ["--attention", "uniform"],
        ["--set", "training.guide_weight=0"],
        ["--set", "training.warmup=2", "--epochs", "2"],
    ):
        assert run([*call, str(tmp_path / "new"), "--guide", str(tmp_path / "links"), *useless]) == 2
        assert "the guide would have no effect; it needs attention with scores" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
