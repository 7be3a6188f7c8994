"""Long work says in the log how far it is; short work does not."""

from __future__ import annotations

import logging
import threading
from threading import Semaphore
from types import SimpleNamespace

import pytest

from alignkit.support import stages
from alignkit.support.stages import Stage, progress_of_parts


class Lines(logging.Handler):
    """Keeps the lines of the log, and lets a test wait for one."""

    def __init__(self):
        super().__init__()
        self.texts, self.come = [], Semaphore(0)

    def emit(self, record):
        self.texts.append(record.getMessage())
        self.come.release()

    def wait(self):
        assert self.come.acquire(timeout=20), "no line has come"
        return self.texts[-1]


@pytest.fixture
def lines(monkeypatch):
    handler = Lines()
    monkeypatch.setattr(stages.log, "handlers", [handler])
    monkeypatch.setattr(stages.log, "level", logging.INFO)
    stages.log.manager._clear_cache()
    yield handler
    stages.log.manager._clear_cache()


def test_a_long_stage_says_how_far_it_is_again_and_again(lines, monkeypatch):
    monkeypatch.setattr(stages, "FIRST", 0.001)
    monkeypatch.setattr(stages, "LATER", 0.001)
    with Stage("fitting") as outer:
        assert lines.wait() == "fitting: 0 s"
        assert all(each.daemon for each in threading.enumerate() if each.name == "alignkit-stage")
        with Stage("reading"):
            while lines.wait() != "reading: 0 s":
                pass
        with Stage("training", outer) as inner:
            inner(1234, 5678, "loss 2")
            while lines.wait() != "fitting: 1,234 of 5,678, loss 2, 0 s":
                pass
    assert Stage._open == []


def test_a_stage_goes_on_to_speak_after_one_of_another_thread_has_ended(lines, monkeypatch):
    monkeypatch.setattr(stages, "FIRST", 0.001)
    monkeypatch.setattr(stages, "LATER", 0.001)
    with Stage("first") as first:
        second = Stage("second").__enter__()
        first(1, 2)
    with second:
        Stage._open.remove(second)  # which ``with`` has entered again
        lines.come = Semaphore(0)
        while lines.wait() != "second: 0 s":
            pass


def test_the_log_goes_on_every_thirty_seconds(lines):
    stage, waited = Stage("fitting"), []
    stage._ended = SimpleNamespace(wait=lambda pause: waited.append(pause) or len(waited) == 3)
    stage._report()
    assert waited == [stages.FIRST, 30, 30]


def test_parts_of_a_work_go_on_where_others_ended():
    seen = []
    part = progress_of_parts(lambda *step: seen.append(step), 3)
    for own in (part("one"), part("")):
        own(1, 4, "x")
        own(4, 4, "")
    assert seen == [(1, 12, "one: x"), (4, 12, "one"), (5, 12, "x"), (8, 12, "")]


def test_short_work_says_nothing(lines):
    with Stage("fitting") as stage:
        stage(1, 2, "x")
    assert lines.texts == []


def test_whoever_asks_for_everything_gets_each_new_message_once(lines, monkeypatch):
    stages.log.setLevel(logging.DEBUG)
    with Stage("fitting") as outer, Stage("training", outer) as inner:
        for done, message in ((1, "x"), (2, "x"), (3, "y")):
            inner(done, 0, message)
    assert lines.texts == ["fitting: 1, x, 0 s", "fitting: 3, y, 0 s"]
