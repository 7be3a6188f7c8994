"""Checkpoints and runs with any of their fields changed work, or are refused in one line without warnings."""

from __future__ import annotations

import json
import shutil
import warnings
from contextlib import suppress

import numpy as np
import pytest
import torch
from tampering import changed_npz, changed_values, failures, npz_content, some, write_npz

from alignkit.aligner import load_aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.lab.translation import open_lab_runs
from alignkit.neural.aligners import load_checkpoint
from alignkit.neural.proxy import fit_proxy
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.run_directory import (
    ClassifierRun,
    TranslationRun,
    load_network,
    open_run,
)
from alignkit.neural.training.translation import train_translation
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs

from .conftest import random_lines, small_settings
from .training import test_classification, test_translation

MOST = [1, pytest.param(None, marks=pytest.mark.slow)]
SETTINGS = small_settings(epochs=2, batch=8).change(network={"layers": 1, "dropout": 0.0})
SHORT = test_classification.SMALL.change(training={"steps": 12})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of each kind, both of them finished, and a proxy."""
    folder = tmp_path_factory.mktemp("runs")
    torch.set_num_threads(1)
    test_translation.start(folder / "translation", SETTINGS)
    test_classification.start(folder / "classifier", SHORT)
    run = TranslationRun(folder / "translation")
    fit_proxy(run.train, run.valid, ProxySettings(embedding=4, epochs=1), device="cpu").save(folder / "proxy.pt")
    return folder


@pytest.fixture
def copied(runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    return tmp_path / "runs"


def changed_tensors(tensor):
    for dtype in (torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64):
        yield f"as {dtype}", tensor.to(dtype)
    yield from (("more dimensions", tensor[None]), ("empty", tensor.flatten()[:0]), ("flat", tensor.flatten()))
    yield from (
        ("twice", torch.cat([tensor[None], tensor[None]])),
        ("expanded", tensor.flatten()[0].expand(tensor.shape)),
    )
    yield from (("on meta", torch.empty_like(tensor, device="meta")), ("sparse", tensor.to_sparse()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "quantised", torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)
    for value in (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e6, -1.0, 0.0):
        yield f"all {value}", torch.full_like(tensor, value)
        other = tensor.clone()
        other.view(-1)[0] = value
        yield f"first {value}", other
    yield from (("to None", None), ("to a list", tensor.tolist()), ("to text", "x"))


def write_checkpoint(path, content):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(content, path)


def changed_checkpoint(path, most):
    content = torch.load(path, weights_only=True)
    return some(changed_values(content, changed_tensors), most)


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("name", ["translation/best.pt", "classifier/best.pt", "proxy.pt"])
def test_a_changed_checkpoint(copied, name, most):
    path = copied / name
    labelled = name.startswith("classifier")
    bitext = (
        (ClassifierRun if labelled else TranslationRun)(copied / name.split("/")[0]).valid if "/" in name else None
    )
    bitext = bitext.bitext if labelled else bitext or TranslationRun(copied / "translation").valid
    place = copied / "a.pt"

    def use():
        aligner = load_aligner(place)
        assert "\n" not in repr(aligner)
        for kind in aligner.kinds:
            assert np.isfinite(aligner.score(bitext, kind).values).all()
        aligner.save(place.with_name("again.pt"))

    shutil.copy(path, place)
    use()
    found = failures(changed_checkpoint(path, most), lambda content: write_checkpoint(place, content), use, name)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", [TranslationRun, ClassifierRun])
def test_a_network_without_its_measurements(copied, kind):
    place = copied / ("translation" if kind is TranslationRun else "classifier")
    content = torch.load(place / "best.pt", weights_only=True)
    del content["metrics"]["valid.loss"]
    write_checkpoint(place / "best.pt", content)
    with pytest.raises(InputError, match=r"best.pt: damaged: metrics.valid.loss is missing"):
        kind(place).load(device="cpu")


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("kind", ["translation", "classifier"])
def test_a_changed_state(tmp_path, kind, most):
    run, place = tmp_path / "run", tmp_path / "now"

    def stop(done, total, message):
        if done == total - 1:
            raise test_translation.Stopped

    def resume(path):
        with suppress(test_translation.Stopped):
            if kind == "translation":
                test_translation.start(path, SETTINGS, progress=stop)
            else:
                test_classification.start(path, SHORT, progress=stop)

    def write(content):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(run, place)
        write_checkpoint(place / "state.pt", content)

    resume(run)
    changes = changed_checkpoint(run / "state.pt", most)
    found = failures(changes, write, lambda: resume(place), f"{kind}/state.pt")
    assert not found, "\n".join(found)


def use_run(run):
    """Read all that a run directory holds."""
    assert isinstance(run, TranslationRun | ClassifierRun)
    assert run.settings.training.seed >= 0
    assert len(run.log.rows) > 3
    assert run.finished
    assert len(run.train.bitext if isinstance(run, ClassifierRun) else run.train)
    run.load(device="cpu")
    run.load(max(run.checkpoints), device="cpu")


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("kind", [TranslationRun, ClassifierRun])
def test_a_changed_configuration(copied, kind, most):
    place = copied / ("translation" if kind is TranslationRun else "classifier")
    text = (place / "config.json").read_text()
    changes = some(changed_values(json.loads(text)), most)
    changes += [("whole", repr(wild[:9]), wild) for wild in ("", "{", "[" * 100_000, "\x00", '"x"', "1" * 5000)]

    def write(content):
        data = content if isinstance(content, str) else json.dumps(content)
        (place / "config.json").write_text(data)

    found = failures(changes, write, lambda: use_run(kind(place)), kind.__name__)
    assert not found, "\n".join(found)


def test_a_changed_log(copied):
    path = copied / "translation" / "log.jsonl"
    first = json.loads(path.read_text().splitlines()[0])
    changes = [(field, how, json.dumps(row)) for field, how, row in changed_values(first)]
    wild = ('{"step": 0, "name": "x", "value": ' + "9" * 1000 + "}", "9" * 5000, "[" * 100_000, "", "{", "\ud800")
    changes += [("whole", repr(line[:9]), line) for line in wild]
    run = TranslationRun(path.parent)
    found = failures(
        changes,
        lambda row: path.write_bytes(row.encode("utf-8", "surrogatepass") + b"\n"),
        lambda: len(run.log.rows),
        "log",
    )
    assert not found, "\n".join(found)
    path.write_text(wild[0])
    with pytest.raises(InputError, match=r"log.jsonl, line 1: damaged: value should be a finite number"):
        _ = run.log


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("name", ["train.npz", "valid.npz"])
def test_a_changed_text(copied, name, most):
    run = TranslationRun(copied / "translation")
    path = run.path / name
    original = Bitext.load(path).fingerprint()

    def use():
        text = run.train if name == "train.npz" else run.valid
        assert text.fingerprint() == original

    changes = some(changed_npz(npz_content(path)), most)
    found = failures(changes, lambda content: write_npz(path, content), use, name)
    assert not found, "\n".join(found)


def test_files_of_another_run_are_noticed(copied, tmp_path):
    """Of another text, of another seed, of another step: never numbers from a mixture."""
    other = tmp_path / "other"
    text = LinePairs(random_lines(30, 11), random_lines(30, 12))
    train_translation(other, text, LinePairs(random_lines(7, 13), random_lines(7, 14)), SETTINGS, device="cpu")
    seed = tmp_path / "seed"
    test_translation.start(seed, SETTINGS.change(training={"seed": 1}))
    run = TranslationRun(copied / "translation")
    whole = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    first, second, *_ = run.checkpoints.values()
    uses = {
        "train.npz": lambda: run.train,
        "valid.npz": lambda: run.valid,
        "best.pt": lambda: open_lab_runs(run.path, None, None, "cpu"),
    }
    for name, use in uses.items():
        use()
        shutil.copy(other / name, run.path)
        with pytest.raises(InputError, match=r"another run|not the \w+ text of this run"):
            use()
        with pytest.raises(AlignkitError, match=r"another run|not the \w+ text of this run"):
            test_translation.start(run.path, SETTINGS)
        for path, data in whole.items():
            path.write_bytes(data)
    shutil.copy(seed / "best.pt", run.path)
    with pytest.raises(InputError, match=r"a network of another run .*seed: 0 before, now 1"):
        load_network(run.path, "cpu")
    assert load_checkpoint(run.path, "cpu").name == "lstm"  # a network is a network, to align with
    shutil.copy(second, first)
    with pytest.raises(InputError, match=r"the network of step \d+, not of step 0"):
        run.load(0, "cpu")
    assert open_run(run.path) == run


def test_training_that_diverges_says_so(tmp_path):
    with pytest.raises(AlignkitError, match=r"training diverged: .* use a smaller learning rate"):
        test_translation.start(tmp_path / "run", SETTINGS.change(training={"learning_rate": 1e30}))
