"""How networks are trained: the optimiser, dropout, and when training has failed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.neural import devices
from alignkit.neural.devices import one_thread
from alignkit.neural.training.loop import adam, optimise
from alignkit.neural.training.trainer import check_converging

from .conftest import small_network


def test_adam_has_its_usual_moments():
    (group,) = adam([torch.zeros(2, requires_grad=True)], 0.3).param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (0.3, (0.9, 0.999), 1e-8)
    assert (group["weight_decay"], group["amsgrad"], group["fused"]) == (0, False, True)


def test_random_numbers_of_a_step_depend_on_the_seed_and_the_step_alone():
    def course(seed, start):
        x, drawn = torch.zeros(1, requires_grad=True), []

        def loss(step):
            drawn.append(float(torch.rand(())))
            assert adam_of_x.param_groups[0]["lr"] == 0.1 * (step + 1)
            return (x - 1).square().sum()

        adam_of_x = adam([x], 9.0)
        steps = list(optimise(adam_of_x, loss, 5, start=start, seed=seed, rate=lambda step: 0.1 * (step + 1)))
        return steps, drawn

    before = torch.get_rng_state()
    steps, drawn = course(3, 0)
    assert steps == [0, 1, 2, 3, 4, 5]
    assert len(set(drawn)) == 5
    assert course(3, 2) == ([2, 3, 4, 5], drawn[2:])
    assert not set(course(4, 0)[1]) & set(drawn)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_is_between_the_layers_of_both_lstms():
    """In training, half of what the first layer gives to the second is dropped, in the encoder and the decoder."""
    network = small_network(dropout=0.5).train()
    source, previous, lengths = torch.tensor([[4], [5], [6]]), torch.tensor([[1], [7], [8]]), np.array([3])
    start = network.encode(source, lengths).start
    decoded = [network.states(previous, start)[0] for _ in range(2)]
    assert not torch.equal(*decoded)
    assert not torch.equal(network.encode(source, lengths).h, network.encode(source, lengths).h)
    network.eval()
    assert torch.equal(network.states(previous, start)[0], network.states(previous, start)[0])
    without = small_network(dropout=0.0).train()
    assert torch.equal(without.states(previous, start)[0], without.states(previous, start)[0])


def test_training_that_has_left_all_bounds_is_stopped():
    network = small_network()
    check_converging(network, 5, [("train.loss", 1e30)])
    with pytest.raises(AlignkitError, match=r"valid\.loss is not finite or far too large after step 5"):
        check_converging(network, 5, [("train.loss", 1.0), ("valid.loss", math.inf)])
    with torch.no_grad():
        network.output.bias[3] = 2e6
    with pytest.raises(AlignkitError, match="a weight is not finite or far too large after step 5"):
        check_converging(network, 5, [("train.loss", 1.0)])


@pytest.mark.parametrize("there", [False, True])
def test_a_gpu_is_taken_where_there_is_one(monkeypatch, there):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch, "empty", lambda *size, device: None)
    assert devices.pick_device().type == ("cuda" if there else "cpu")


@pytest.mark.parametrize(("text", "shown"), [("no driver.\nmore", "no driver"), ("", "RuntimeError")])
def test_why_a_device_cannot_be_used(monkeypatch, text, shown):
    def fail(*_, **__):
        raise RuntimeError(text)

    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(AlignkitError, match=f"^cannot compute on device 'cpu': {shown}$"):
        devices.pick_device("cpu")


@pytest.mark.parametrize(("before", "asked", "chosen"), [(1, None, 1), (4, None, 2), (1, 3, 3)])
def test_threads_are_those_asked_for_or_no_more_than_cores(monkeypatch, before, asked, chosen):
    monkeypatch.setattr(devices, "core_count", lambda: 2)
    torch.set_num_threads(before)
    devices.set_threads(asked)
    assert torch.get_num_threads() == chosen


@pytest.mark.parametrize(("device", "within"), [("cpu", 1), ("meta", 2)])
def test_one_thread_computes_on_a_cpu(device, within):
    torch.set_num_threads(2)
    with one_thread(torch.device(device)):
        assert torch.get_num_threads() == within
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("options", "within"), [({}, 2), ({"pinned": False}, 2), ({"pinned": True}, 1)])
def test_the_backward_pass_runs_on_one_thread_if_it_is_pinned(options, within):
    torch.set_num_threads(2)
    x, threads = torch.ones(1, requires_grad=True), []
    x.register_hook(lambda gradient: threads.append(torch.get_num_threads()))
    assert [*optimise(adam([x], 0.1), lambda step: x.square().sum(), 1, **options)] == [0, 1]
    assert threads == [within]
