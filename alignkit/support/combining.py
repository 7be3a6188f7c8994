"""Requests of several threads that are answered together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from threading import Lock
from typing import Any, Generic, TypeVar

from alignkit.support.arrays import offsets_of

#: The source and the target sentences of a text.
Sides = tuple[list[Any], list[Any]]
Request = TypeVar("Request")
Answer = TypeVar("Answer")
MOST = 64  # requests that are answered together
NAP = 0.25  # seconds until a thread that waits looks whether the one that answers is still there
PATIENCE = 0.001  # seconds that those who were answered together are given to ask again together


def outcomes(
    answer: Callable[[Sequence[Request]], Sequence[Answer]], requests: Sequence[Request]
) -> list[Answer | Exception]:
    """The answer to each request, or the exception that it raises by itself."""
    try:
        return list(answer(requests))
    except Exception as error:
        if len(requests) == 1:
            return [error]
        return [outcome for request in requests for outcome in outcomes(answer, [request])]


class Waiting:
    """A request of a thread that waits."""

    def __init__(self, request: Any) -> None:
        self.request: Any = request
        self.outcome: Any = None
        self.is_answered = self.has_left = False
        self._asleep = Lock()
        self._asleep.acquire()

    def sleep(self) -> None:
        """Wait to be woken, or for a while."""
        self._asleep.acquire(timeout=NAP)

    def wake(self) -> None:
        """End its sleep, or the next one."""
        with suppress(RuntimeError):  # it is awake
            self._asleep.release()


class Combined(Generic[Request, Answer]):
    """A function of many requests, which several threads call with one each.

    While one thread computes, the requests of the others wait; then the first of them answers all at once. So a
    function that takes little longer for ten requests than for one answers ten threads nearly as fast as one.
    No thread is started, and a request that comes alone is answered at once. Where a signal ends a thread that
    answers, another one takes its place.

    Args:
        answer: gives the answers to requests, in order.
        most: the largest number of requests that are answered together.
    """

    def __init__(self, answer: Callable[[Sequence[Request]], Sequence[Answer]], most: int = MOST) -> None:
        self.answer, self.most = answer, most
        self._lock, self._waiting = Lock(), list[Waiting]()
        self._leader: Waiting | None = None  # that answers
        self._last = 1  # the number of requests that were answered last

    def __call__(self, request: Request) -> Answer:
        """The answer to a request; raises what ``answer`` raises for this request alone."""
        own = Waiting(request)
        try:
            with self._lock:
                self._waiting.append(own)
            while not own.is_answered:
                if self._leads(own):
                    self._answer_waiting(own)
                else:
                    own.sleep()
        finally:  # also at a signal
            own.has_left = True
            if self._leader is own:
                self._hand_over()
        if isinstance(own.outcome, Exception):
            raise own.outcome
        answer: Answer = own.outcome
        return answer

    def _leads(self, own: Waiting) -> bool:
        """Whether a thread is to answer all: the one that was woken for it, or any if none does."""
        with self._lock:
            if self._leader is None or self._leader.has_left:
                self._leader = own
            return self._leader is own

    def _answer_waiting(self, own: Waiting) -> None:
        """Answer what waits, and let the next one answer what comes meanwhile."""
        end = time.monotonic() + PATIENCE
        while len(self._waiting) < self._last and time.monotonic() < end:
            time.sleep(PATIENCE / 20)
        with self._lock:
            taken = [own, *(each for each in self._waiting if each is not own and not each.has_left)][: self.most]
        for each, outcome in zip(taken, outcomes(self.answer, [each.request for each in taken]), strict=True):
            each.outcome, each.is_answered = outcome, True
        self._last = len(taken)
        self._hand_over()
        for each in taken:
            each.wake()

    def _hand_over(self) -> None:
        """Let the first that still waits answer all."""
        with self._lock:
            self._waiting = [each for each in self._waiting if not (each.has_left or each.is_answered)]
            self._leader = self._waiting[0] if self._waiting else None
            if self._leader is not None:
                self._leader.wake()


def of_texts(answer: Callable[[list[Any], list[Any]], Any]) -> Callable[[Sequence[Sides]], list[Any]]:
    """A function of the sides of several texts, which are one text for ``answer``.

    Args:
        answer: gives something for each pair of a text of so many sentences; a slice of this is that of a part.
    """

    def answers(texts: Sequence[Sides]) -> list[Any]:
        if len(texts) > 1 and any(len(source) != len(target) for source, target in texts):
            raise ValueError("a text whose sides differ in length is to be answered alone")
        source, target = ([*chain.from_iterable(side)] for side in zip(*texts, strict=True))
        whole = answer(source, target)
        bounds = offsets_of([len(source) for source, _ in texts]).tolist()
        return [whole[low:high] for low, high in pairwise(bounds)] if len(texts) > 1 else [whole]

    return answers
