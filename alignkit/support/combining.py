"""Requests of several threads that are answered together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import chain, pairwise
from threading import Lock
from typing import Any, Generic, TypeVar

from alignkit.support.arrays import offsets_of

#: The source and the target sentences of a text.
Sides = tuple[list[Any], list[Any]]
Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Combined(Generic[Request, Answer]):
    """A function of many requests, which several threads call with one each.

    While one thread computes, the requests of the others wait; then the next thread answers all of them at once.
    So a function that takes little longer for ten requests than for one answers ten threads nearly as fast as one.
    No thread is started, and a request that comes alone is answered at once.

    Args:
        answer: gives the answers to requests, in order.
        most: the largest number of requests that are answered together.
    """

    def __init__(self, answer: Callable[[Sequence[Request]], Sequence[Answer]], most: int) -> None:
        self.answer, self.most = answer, most
        self._turn, self._waiting = Lock(), deque[tuple[Request, Future[Answer]]]()

    def __call__(self, request: Request) -> Answer:
        """The answer to a request; raises what ``answer`` raises for this request alone."""
        future = Future[Answer]()
        self._waiting.append((request, future))
        with self._turn:
            while not future.done():
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self.most))]
                try:
                    self._answer(taken)
                except BaseException:  # of a signal: the others ask again
                    others = [each for each in taken if each[1] is not future and not each[1].done()]
                    self._waiting.extendleft(reversed(others))
                    raise
        return future.result()

    def _answer(self, taken: Sequence[tuple[Request, Future[Answer]]]) -> None:
        requests = [request for request, _ in taken]
        try:
            answers = self.answer(requests)
        except Exception as error:
            if len(taken) == 1:
                taken[0][1].set_exception(error)
            for one in taken if len(taken) > 1 else ():  # one of them is wrong
                self._answer([one])
            return
        for (_, future), answer in zip(taken, answers, strict=True):
            future.set_result(answer)


def combined_texts(answer: Callable[[list[Any], list[Any]], Answer], alone: bool) -> Combined[Sides, Answer]:
    """A function of the sides of a text; texts of several threads are one.

    Args:
        answer: gives something for each pair of a text of so many sentences; a slice of this is that of a part.
        alone: answer one text at a time.
    """

    def answers(texts: Sequence[Sides]) -> list[Answer]:
        if len(texts) > 1 and any(len(source) != len(target) for source, target in texts):
            raise ValueError("a text whose sides differ in length is to be answered alone")
        source, target = ([*chain.from_iterable(side)] for side in zip(*texts, strict=True))
        whole: Any = answer(source, target)
        bounds = offsets_of([len(source) for source, _ in texts]).tolist()
        return [whole[low:high] for low, high in pairwise(bounds)] if len(texts) > 1 else [whole]

    return Combined(answers, most=1 if alone else 64)
