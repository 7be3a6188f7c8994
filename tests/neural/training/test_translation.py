"""Training: the same bits every time, also after a stop; what a run directory holds and refuses."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import NeuralAligner, load_checkpoint
from alignkit.neural.devices import (
    CPU,
    GPU,
    BatchSizes,
    batch_sizes,
    scoring_batches,
    training_batches,
    usable,
)
from alignkit.neural.training.run_directory import TranslationRun, find_run, fingerprint
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import TranslationTask, train_translation
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs

from ..conftest import random_lines, small_settings

SOURCE, TARGET = random_lines(30, 1), random_lines(30, 2)
TEXT, VALID = LinePairs(SOURCE, TARGET), LinePairs(random_lines(7, 3), random_lines(7, 4))
FILES = ["best.pt", "state.pt", "log.jsonl", "train.npz", "valid.npz", "valid.tgt.txt", "config.json"]


def start(path, settings=None, **kwargs):
    return train_translation(path, TEXT, VALID, settings or small_settings(), device="cpu", **kwargs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a finished run, which no test changes."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "run"
    start(folder)
    return folder


def contents(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


class Stopped(Exception):  # noqa: N818
    pass


def stop_at(step):
    def progress(done, total, message):
        assert total == 24
        assert message.startswith(f"epoch {(done - 1) // 8 + 1} of 3, validation loss ")
        if done == step:
            raise Stopped

    return progress


def test_the_learning_rate_reaches_adam(bitext, tokenizer):
    """One step of Adam moves every weight that has a gradient by nearly the learning rate."""
    settings = small_settings(steps=1, rate_warmup=10, learning_rate=0.1)
    trainer = Trainer(TranslationTask(bitext, bitext, settings, tokenizer, device="cpu"))
    before = trainer.snapshot().network  # a copy, which is not trained
    trainer.run()
    moved = (trainer.network.output.bias - before.output.bias).abs()
    assert moved.max().item() == pytest.approx(0.01, rel=1e-3)


def test_losses_are_means_since_the_last_measurement_and_of_equals_the_first_is_kept(
    bitext, tokenizer, monkeypatch
):
    losses, real = [], TranslationTask.loss

    def loss(*given):
        value = real(*given)
        losses.append(value.item())
        return value

    monkeypatch.setattr(TranslationTask, "loss", loss)
    monkeypatch.setattr(TranslationTask, "measure", lambda *given: [("valid.loss", 2.0)])
    task = TranslationTask(bitext, bitext, small_settings(steps=13), tokenizer, device="cpu")
    trainer = Trainer(task)
    assert trainer.run().step == 0
    means = {end: np.mean(losses[start:end]) for start, end in pairwise((0, 6, 10, 12, 13))}
    assert dict(trainer.log.series("train.loss")) == pytest.approx(means, rel=1e-5)
    assert [step for step, _ in trainer.log.series("valid.loss")] == [0, *means]


@pytest.mark.parametrize("settings", [{}, {"buckets": False}])
def test_an_epoch_has_every_pair_once(bitext, settings):
    batches, other = (training_batches(bitext, 4, 7, epoch, **settings) for epoch in (0, 1))
    assert sorted(np.concatenate(batches)) == list(usable(bitext))
    assert [len(other), *sorted(map(len, other))] == [6, *[4] * 6]
    again = training_batches(bitext, 4, 7, 0, **settings)
    assert np.array_equal(np.stack(batches), np.stack(again))
    assert not np.array_equal(np.stack(batches), np.stack(other))
    lengths = bitext.source.lengths
    mixed = [len({*lengths[batch]}) for batch in batches]
    whole = sum(np.unique(lengths[usable(bitext)], return_counts=True)[1] // 4)
    assert mixed.count(1) >= whole > 0 if not settings else mixed.count(1) < whole
    if not settings:  # neither are the batches in order of length, nor the pairs of one length in that of the text
        assert [min(lengths[batch]) for batch in batches] != sorted(min(lengths[batch]) for batch in batches)


@pytest.mark.parametrize(
    "sizes", [BatchSizes(3), BatchSizes(5, 60, equal_lengths=False), BatchSizes(50, 24, equal_lengths=False)]
)
def test_batches_to_score_are_as_large_as_their_limits_allow(bitext, sizes):
    rows, columns = bitext.target.lengths, bitext.source.lengths
    pairs = sorted(usable(bitext), key=lambda m: (columns[m], rows[m]))
    expected: list[list[int]] = [[]]
    for m in pairs:
        longer = [*expected[-1], m]
        padded = len(longer) * rows[longer].max() * columns[longer].max()
        alike = not sizes.equal_lengths or len({*columns[longer]}) == 1
        if len(longer) == 1 or (alike and len(longer) <= sizes.pairs and padded <= sizes.elements):
            expected[-1] = longer
        else:
            expected.append([m])
    assert [batch.tolist() for batch in scoring_batches(bitext, sizes)] == expected


@pytest.mark.parametrize(("name", "equal"), [("probes", False), ("saliency", True), ("leave_one_out", True)])
def test_a_gpu_takes_larger_batches(name, equal):
    small, large = (batch_sizes(name, torch.device(device)) for device in ("cpu", "cuda"))
    assert (small.equal_lengths, large.equal_lengths) == (True, equal)
    assert all(one <= other for one, other in zip(small, large, strict=True) if one not in (True, False))
    assert all(GPU[purpose].pairs >= CPU[purpose].pairs for purpose in CPU)
    assert BatchSizes(1, logits=4000 * 20).rows(torch.nn.Linear(2, 1000)) == 20
    assert BatchSizes(1, logits=4000 * 15).rows(torch.nn.Linear(2, 1000)) == 16


@pytest.mark.parametrize("moment", [0, 10, 17])
def test_a_stopped_run_ends_in_the_same_bits(tmp_path, whole, moment):
    if moment == 0:  # before anything but the configuration was written
        with pytest.raises(Stopped):
            start(tmp_path, progress=stop_at(1))
        for path in tmp_path.glob("*"):
            if path.name != "config.json":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        with pytest.raises(Stopped):
            start(tmp_path, progress=stop_at(moment))
    start(tmp_path)
    assert contents(tmp_path) == contents(whole)
    assert set(FILES) | {"checkpoints/step-000010.pt"} <= set(contents(whole))


def test_what_a_killed_process_leaves_goes_on(tmp_path, whole, monkeypatch):
    """The folder is copied as it is between two of the files that a measured step writes, the new one unnamed."""
    count, real = 0, os.replace

    def replace(source, target):
        nonlocal count
        count += 1
        if count == 15:
            shutil.copytree(tmp_path / "going", tmp_path / "killed")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    start(tmp_path / "going")
    assert count > 15
    assert (tmp_path / "killed" / "state.pt").exists()
    assert contents(tmp_path / "killed") != contents(whole)
    unnamed = list((tmp_path / "killed").rglob(".*"))
    assert len(unnamed) == 1
    unnamed[0].unlink()
    start(tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(whole)


def test_first_weights_and_batches_are_those_of_the_seed(bitext, tokenizer):
    def start_of(seed):
        task = TranslationTask(bitext, bitext, small_settings(seed=seed), tokenizer, device="cpu")
        return Trainer(task).network.output.weight, task.batches(0)

    (one, first), (same, again), (other, second) = map(start_of, (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert np.array_equal(np.concatenate(first), np.concatenate(again))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


def test_training_learns_to_copy(tokenizer, bitext):
    text = Bitext(bitext.target, bitext.target)
    settings = small_settings(epochs=12, learning_rate=4e-2).change(
        network={"hidden": 32, "embedding": 16, "dropout": 0.0, "layers": 1}
    )
    trainer = Trainer(TranslationTask(text, text, settings, tokenizer, device="cpu"))
    trainer.run()
    assert trainer.log.best("valid.accuracy", largest=True)[1] > 0.8
    assert trainer.log.series("valid.accuracy")[0][1] < 0.3


def test_a_finished_run_returns_at_once(whole):
    assert TranslationRun(whole).finished
    before, first = contents(whole), TranslationRun(whole).load(device="cpu")
    again = start(whole, progress=stop_at(24))
    assert contents(whole) == before
    assert (first.step, first.metrics) == (again.step, again.metrics)


def test_line_ends_are_no_part_of_the_text(tmp_path):
    whole, lines = (
        small_settings(steps=2),
        [LinePairs(*([f"{line}\n" for line in side] for side in text)) for text in (TEXT, VALID)],
    )
    plain = start(tmp_path / "plain", whole)
    ended = train_translation(tmp_path / "ended", *lines, whole, device="cpu")
    assert ended.metrics == plain.metrics
    assert len(TranslationRun(tmp_path / "ended").references) == len(VALID.target)


def test_what_a_run_refuses(tmp_path):
    start(tmp_path / "run", small_settings(steps=2))
    with pytest.raises(AlignkitError, match=r"settings.training.batch: 4 before, now 5"):
        start(tmp_path / "run", small_settings(steps=2, batch=5))
    with pytest.raises(AlignkitError, match=r"text\.training: not the same as before"):
        train_translation(tmp_path / "run", LinePairs(TARGET, TARGET), VALID, small_settings(steps=2))
    with pytest.raises(AlignkitError, match="30 source and 29 target lines"):
        train_translation(tmp_path / "run", LinePairs(SOURCE, TARGET[:-1]), VALID, small_settings())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("do not touch")
    with pytest.raises(AlignkitError, match="neither empty nor a run"):
        start(tmp_path / "other")
    with pytest.raises(AlignkitError, match="validation text has no pair"):
        train_translation(tmp_path / "empty", TEXT, LinePairs([], []), small_settings())
    state = tmp_path / "run" / "state.pt"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"state\.pt"):
        start(tmp_path / "run", small_settings(steps=2))


def test_a_fingerprint_tells_where_lines_and_sides_end():
    texts = [["ab"]], [["a", "b"]], [["a"], ["b"]], [["", "ab"]]
    assert len({fingerprint(*sides) for sides in texts}) == 4


def test_what_failed_before_its_first_step_may_be_tried_otherwise(tmp_path):
    with pytest.raises(AlignkitError, match="validation text has no pair"):
        train_translation(tmp_path / "run", TEXT, LinePairs([], []), small_settings(steps=2))
    start(tmp_path / "run", small_settings(steps=2, batch=5))
    start(tmp_path / "other", small_settings(steps=2, batch=5))
    assert contents(tmp_path / "run") == contents(tmp_path / "other")


def test_a_run_gives_its_text_and_its_checkpoints(tmp_path, whole):
    best = start(whole)
    run = find_run(whole / "checkpoints" / "step-000010.pt")
    assert run is not None
    assert run.path == whole.resolve()
    assert run.train.fingerprint() == best.fingerprint
    assert run.references == VALID.target
    assert run.settings == small_settings()
    assert list(run.checkpoints) == [0, 10, 20, 24]
    losses = dict(run.log.series("valid.loss"))
    assert best.step == min(losses, key=lambda step: losses[step])
    for step, path in run.checkpoints.items():
        loaded = load_checkpoint(path)
        assert isinstance(loaded, NeuralAligner)
        assert loaded.step == step
        assert loaded.metrics["valid.loss"] == losses[step]
    assert find_run(tmp_path) is None


@pytest.mark.parametrize("bleu", ["end", "logged"])
def test_bleu_is_logged_when_asked_for(tmp_path, bleu):
    best = start(tmp_path / "run", small_settings(steps=12, bleu=bleu, beam=2))
    log = TranslationRun(tmp_path / "run").log
    steps = [step for step, _ in log.series("valid.bleu")]
    assert steps == ([best.step] if bleu == "end" else [0, 10, 12])
    assert len(log.series("valid.bleu_greedy")) == len(steps)


def test_checkpoints_rise_beyond_a_million_steps(tmp_path):
    """What is read along a run, such as the first step at which something holds, needs their order."""
    others = ["x", "", "-00001", "1", "9" * 200, 6 * chr(0x661)]  # no numbers of six digits or a few more
    (tmp_path / "checkpoints").mkdir()
    steps = [0, 50, 200_000, 999_999, 1_000_000, 1_200_000]
    for name in (*others, *(f"{step:06d}" for step in steps)):
        (tmp_path / "checkpoints" / f"step-{name}.pt").touch()
    assert list(TranslationRun(tmp_path).checkpoints) == steps
