"""Requests of several threads, answered together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

import alignkit
from alignkit.support.combining import Combined, Waiting, of_texts, outcomes


class Squares:
    """Answers with squares, and remembers what it was asked together. The first call waits until others do."""

    def __init__(self, others: int, most: int = 64) -> None:
        self.asked, self.others, self.begun, self.combined = [], others, Event(), Combined(self, most)

    def __call__(self, requests):
        self.asked.append(list(requests))
        if len(self.asked) == 1:
            self.begun.set()
            while len(self.combined._waiting) < self.others:
                pass
        return [request**2 for request in requests]

    def answers(self, first, others):
        """What each request gives, the first of which is computed while all others come."""
        with ThreadPoolExecutor(len(others) + 1) as pool:
            calls = [pool.submit(self.combined, first)]
            self.begun.wait()
            calls += [pool.submit(self.combined, other) for other in others]
            return [call.exception() or call.result() for call in calls]


def test_what_waits_is_answered_at_once():
    squares = Squares(8)
    assert squares.answers(1, range(2, 10)) == [n * n for n in range(1, 10)]
    assert [len(asked) for asked in squares.asked] == [1, 8]
    assert squares.combined(12) == 144


def test_so_many_at_a_time():
    squares = Squares(8, most=3)
    assert squares.answers(1, range(2, 10)) == [n * n for n in range(1, 10)]
    assert max(map(len, squares.asked)) == 3
    assert sorted(n for asked in squares.asked for n in asked) == [*range(1, 10)]


def test_an_error_is_that_of_its_request():
    first, *others = Squares(4).answers(1, [2, "x", 3, None])
    assert (first, others[0], others[2]) == (1, 4, 9)
    assert [type(error) for error in (others[1], others[3])] == [TypeError, TypeError]
    with pytest.raises(TypeError):
        Squares(0).combined("x")


def test_an_interrupted_thread_leaves_the_others_their_answers():
    """The signal comes to one thread, while it answers all; the next one answers again."""
    squares, interrupted = Squares(3), []

    def answer(requests):
        found = squares(requests)
        if len(requests) == 3 and not interrupted:
            interrupted.append(requests)
            raise KeyboardInterrupt
        return found

    squares.combined.answer = answer
    found = squares.answers(1, [2, 3, 4])
    wrong = [isinstance(each, KeyboardInterrupt) for each in found]
    assert sum(wrong) == 1
    assert all(each == n * n for n, each, bad in zip((1, 2, 3, 4), found, wrong, strict=True) if not bad)


def test_after_an_interrupt_the_others_wait_again():
    def answer(requests):
        asked.append(requests)
        raise KeyboardInterrupt

    asked, combined, others = [], Combined(answer, 64), [Waiting(n) for n in (2, 3, 5)]

    def answer_all(requests):
        combined._waiting.extend(others)
        combined.answer = answer
        return [None for _ in requests]

    combined.answer = answer_all
    combined(1)
    assert [each.woken.is_set() for each in others] == [True, False, False]
    with pytest.raises(KeyboardInterrupt):
        combined._answer_waiting()  # as the first of them does
    assert asked == [[2, 3, 5]]
    assert [*combined._waiting] == others[1:]
    assert [each.woken.is_set() for each in others[1:]] == [True, False]


def test_a_thread_that_is_interrupted_while_it_waits_lets_the_next_one_answer():
    combined, other = Combined(lambda requests: requests, 64), Waiting(2)
    combined._is_busy, combined._last = True, 2

    class Interrupted(Event):
        def wait(self):
            combined._hand_over()  # to this thread, whose signal comes first
            combined._waiting.append(other)
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alignkit.support.combining.Waiting", lambda request: Waiting(request, Interrupted()))
        with pytest.raises(KeyboardInterrupt):
            combined(1)
    assert [*combined._waiting] == [other]
    assert other.woken.is_set()


def test_the_outcome_of_a_request_is_its_own():
    def inverses(numbers):
        asked.append(numbers)
        return [1 / number for number in numbers]

    asked = []
    first, second, third = outcomes(inverses, [2, 0, 4])
    assert (first, type(second), third) == (0.5, ZeroDivisionError, 0.25)
    assert asked == [[2, 0, 4], [2], [0], [4]]


def test_texts_are_joined_and_their_answers_cut_apart():
    answers = of_texts(lambda source, target: [*zip(source, target, strict=True)])
    texts = [(["a"], ["A"]), ([], []), (["b", "c"], ["B", "C"])]
    assert answers(texts) == [[("a", "A")], [], [("b", "B"), ("c", "C")]]
    assert answers(texts[2:]) == [[("b", "B"), ("c", "C")]]
    for wrong in ((["d"], ["D", "E"]), (["d", "e"], ["D"])):
        with pytest.raises(ValueError, match="whose sides differ in length is to be answered alone"):
            answers([*texts, wrong])


def test_one_aligner_links_the_texts_of_several_threads():
    bitext = alignkit.sample().bitext.block(0, 60)
    model = alignkit.fit_hmm(bitext, threads=1)
    texts = [([" ".join(bitext.source.words(m))], [" ".join(bitext.target.words(m))]) for m in range(60)]
    alone = [model.align_batch(*text) for text in texts]
    assert alone == [[line] for line in model.links(bitext).to_strings()]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: model.align_batch(*text), texts)) == alone
        wrong = [(["a"], ["b", "c"]), ([None], ["b"])]
        calls = [pool.submit(model.align_batch, *text) for text in [*texts[:9], *wrong, *texts[9:]]]
    assert [call.exception() is None for call in calls] == [True] * 9 + [False] * 2 + [True] * 51
    with pytest.raises(alignkit.AlignkitError, match=r"1 .* 2"):
        calls[9].result()
