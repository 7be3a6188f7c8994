"""Training on several ranks: what equals what, and what is left when a rank is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from distributed.conftest import environment, our_lines, torchrun

from alignkit.neural.training.classifier_run import ClassifierRun
from alignkit.neural.training.translation_run import TranslationRun, train_translation
from alignkit_cli.main import run

from ..conftest import random_lines, small_settings
from . import test_classification, test_guidance
from .test_translation import contents

ROOT = Path(__file__).parents[3]
#: a run of four epochs, whose last batch of an epoch is smaller than the others
SIZES = [
    *("--preset", "small", "--tokens", "words", "--batch", "6", "--epochs", "4", "--device", "cpu", "--quiet"),
    *("--set", "network.hidden=8", "--set", "network.embedding=8", "--set", "network.dropout=0.3"),
    *("--set", "training.parts=2"),
]

CLASSIFIER = test_classification.SMALL.change(training={"steps": 20, "batch": 7})

# What each of three ranks runs: a guided translation network, and then a classifier.
TWO_RUNS = """
import sys
from pathlib import Path
from alignkit.neural.training.ranks import lead_training
from neural.training import test_ranks
from neural.training.test_classification import start
folder = Path(sys.argv[1])
def work():
    test_ranks.guided(folder / "translation")
    start(folder / "classifier", test_ranks.CLASSIFIER)
    return True
assert lead_training(work) in (True, None)
"""


def plain(**training: object):  # type: ignore[no-untyped-def]
    """Small settings without dropout."""
    return small_settings(**training).change(network={"dropout": 0.0})


def guided(path: Path) -> None:
    """Train a guided network without dropout in a run directory."""
    lines, links = test_guidance.TEXT, test_guidance.BACKWARDS
    train_translation(path, lines, lines, plain(epochs=2, guide_weight=2.0), device="cpu", guide=links)


def weights(path: Path) -> dict[str, torch.Tensor]:
    """The parameters and Adam's moments in a run directory."""
    state = torch.load(path / "state.pt", weights_only=True)
    moments = state["optimiser"]["state"]
    return state["weights"] | {f"{n}.{name}": moments[n][name] for n in moments for name in moments[n]}


def assert_close(one: Path, other: Path) -> None:
    """Both runs have the same parameters and moments, within rounding.

    Norms are compared, because Adam moves a parameter with a gradient near 0 as much as any other.
    """
    ours, theirs = weights(one), weights(other)
    assert {*ours} == {*theirs}
    for name, found in ours.items():
        assert (found - theirs[name]).norm() <= 1e-3 * found.norm(), name


def test_runs_on_three_ranks_are_those_on_one(tmp_path: Path) -> None:
    """Batches of 4 are not divisible by three, and those of fewer than three pairs leave a rank without work."""
    script = tmp_path / "program.py"
    script.write_text(TWO_RUNS)
    paths = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        torchrun(3, script, tmp_path / "ranks"),
        env={**environment(), "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    guided(tmp_path / "one" / "translation")
    test_classification.start(tmp_path / "one" / "classifier", CLASSIFIER)
    for kind in (TranslationRun, ClassifierRun):
        name = "translation" if kind is TranslationRun else "classifier"
        one, ranks = kind(tmp_path / "one" / name), kind(tmp_path / "ranks" / name)
        assert one.config == ranks.config
        ours, theirs = one.log.rows, ranks.log.rows
        assert [row[:2] for row in ours] == [row[:2] for row in theirs]
        assert [row.value for row in ours] == pytest.approx([row.value for row in theirs], rel=1e-4)
        assert [*one.checkpoints] == [*ranks.checkpoints]
    # Not the classifier's: the bias of a score before softmax has no gradient but rounding, and moves by it.
    assert_close(tmp_path / "one" / "translation", tmp_path / "ranks" / "translation")


@pytest.fixture
def call(tmp_path: Path) -> list[str]:
    """The arguments of a run on two parts, but for the directory."""
    names = []
    for seed, name in enumerate(("train.de", "train.en", "valid.de", "valid.en")):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in random_lines(150 if seed < 2 else 6, seed)))
        names.append(str(path))
    return ["train", *names[:2], "--valid", *names[2:], *SIZES, "-o"]


def test_a_killed_rank_loses_nothing(call: list[str], tmp_path: Path) -> None:
    """With two parts, one rank and two have the same bits; a run goes on at another number of ranks."""
    assert run([*call, str(tmp_path / "whole")]) == 0
    err = killed([*call, str(tmp_path / "killed")], 1, 0.1)
    (line,) = our_lines(err)
    assert line.startswith("alignkit: error: rank 1 (process ")
    assert line.endswith("died, so the other ranks stop; give the same command again, on any number of ranks, "
                         "to go on from the last state written")  # fmt: skip
    shutil.copytree(tmp_path / "killed", tmp_path / "alone")
    assert run([*call, str(tmp_path / "alone")]) == 0
    finish([*call, str(tmp_path / "killed")])
    expected = contents(tmp_path / "whole")
    assert contents(tmp_path / "killed") == expected
    assert contents(tmp_path / "alone") == expected


@pytest.mark.slow
def test_twenty_kills_lose_nothing(call: list[str], tmp_path: Path) -> None:
    call = [*call[:-1], "--epochs", "40", "-o"]
    assert run([*call, str(tmp_path / "whole")]) == 0
    rng = np.random.default_rng()
    folder, count = tmp_path / "killed", 0
    while count < 20:
        rank, delay = int(rng.integers(2)), float(rng.uniform(0, 3))
        err = killed([*call, str(folder)], rank, delay)
        if TranslationRun(folder).finished:
            # A run that came to its end is compared, and the next kill meets a new one.
            for path in folder.glob(".*"):
                path.unlink()
            assert contents(folder) == contents(tmp_path / "whole"), (count, rank, delay)
            shutil.rmtree(folder)
            continue
        assert any(f"rank {rank} (process" in line for line in our_lines(err)), (rank, delay, err)
        count += 1
    finish([*call, str(folder)])
    for path in folder.rglob(".*"):  # files that were being written
        path.unlink()
    assert contents(folder) == contents(tmp_path / "whole")


def killed(arguments: list[str], rank: int, delay: float) -> str:
    """Run the program on two ranks, and kill one some seconds after the run has a state; returns standard error.

    Returns, too, if the program ends before the kill.
    """
    marker = f"{time.time_ns()}"
    began = time.monotonic()
    state = Path(arguments[-1]) / "state.pt"
    before = state.stat().st_mtime_ns if state.exists() else 0
    process = subprocess.Popen(
        torchrun(2, "-m", "alignkit", *arguments),
        env={**environment(), "KILLED_BY_A_TEST": marker},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while process.poll() is None and (not state.exists() or state.stat().st_mtime_ns == before):
            assert time.monotonic() - began < 120
            time.sleep(0.005)
        time.sleep(delay)
        for number in ranks_of(marker, rank):
            os.kill(number, signal.SIGKILL)
        at = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - at < 60
    finally:
        process.kill()
    return err


def ranks_of(marker: str, rank: int) -> list[int]:
    """The processes of that rank that were started with the marker in their environment."""
    if sys.platform != "linux":
        pytest.skip("processes are found by /proc")
    wanted = {f"KILLED_BY_A_TEST={marker}".encode(), f"RANK={rank}".encode()}
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            given = {*place.read_bytes().split(b"\0")}
        except OSError:
            continue
        if wanted <= given:
            found.append(int(place.parent.name))
    return found


def finish(arguments: list[str]) -> None:
    """Run the program on two ranks to its end."""
    done = subprocess.run(
        torchrun(2, "-m", "alignkit", *arguments),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
