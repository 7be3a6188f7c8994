"""Requests of several threads that are answered together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from threading import Event, Lock
from typing import Any, Generic, TypeVar

from alignkit.support.arrays import offsets_of

#: The source and the target sentences of a text.
Sides = tuple[list[Any], list[Any]]
Request = TypeVar("Request")
Answer = TypeVar("Answer")
MOST = 64  # requests that are answered together
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


@dataclass(eq=False)
class Waiting:
    """A request of a thread that waits."""

    request: Any
    woken: Event = field(default_factory=Event)  # it has an outcome, or is to answer all that wait
    outcome: Any = None
    is_answered: bool = False


class Combined(Generic[Request, Answer]):
    """A function of many requests, which several threads call with one each.

    While one thread computes, the requests of the others wait; then the first of them answers all at once. So a
    function that takes little longer for ten requests than for one answers ten threads nearly as fast as one.
    No thread is started, and a request that comes alone is answered at once.

    Args:
        answer: gives the answers to requests, in order.
        most: the largest number of requests that are answered together.
    """

    def __init__(self, answer: Callable[[Sequence[Request]], Sequence[Answer]], most: int = MOST) -> None:
        self.answer, self.most = answer, most
        self._lock, self._waiting = Lock(), deque[Waiting]()
        self._is_busy, self._last = False, 1  # the number of requests that were answered last

    def __call__(self, request: Request) -> Answer:
        """The answer to a request; raises what ``answer`` raises for this request alone."""
        own = Waiting(request)
        with self._lock:
            self._waiting.append(own)
            is_first, self._is_busy = not self._is_busy, True
        try:
            if is_first or (own.woken.wait() and not own.is_answered):
                self._answer_waiting()
        except BaseException:  # of a signal: the others go on
            with self._lock:
                if own in self._waiting:
                    self._waiting.remove(own)
                    if is_first or own.woken.is_set():
                        self._hand_over()
            raise
        if isinstance(own.outcome, Exception):
            raise own.outcome
        answer: Answer = own.outcome
        return answer

    def _answer_waiting(self) -> None:
        """Answer what waits, and let the next one answer what comes meanwhile."""
        end = time.monotonic() + PATIENCE
        while len(self._waiting) < self._last and time.monotonic() < end:
            time.sleep(PATIENCE / 20)
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self.most))]
        self._last = len(taken)
        try:
            for each, outcome in zip(taken, outcomes(self.answer, [each.request for each in taken]), strict=True):
                each.outcome, each.is_answered = outcome, True
        finally:
            with self._lock:
                # After a signal, those that have no answer wait again, but for the thread that it came to.
                self._waiting.extendleft(each for each in reversed(taken[1:]) if not each.is_answered)
                self._hand_over()
            for each in taken:
                if each.is_answered:
                    each.woken.set()

    def _hand_over(self) -> None:
        """Wake the first that waits, to answer all."""
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._waiting[0].woken.set()


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
