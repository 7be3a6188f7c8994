"""Requests of several threads, answered together."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread, current_thread, main_thread

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
            while len(self.combined._waiting) <= self.others:  # itself, too
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


def test_what_has_left_is_not_answered():
    asked = []

    def answer(requests):
        asked.append([*requests])
        combined._waiting[-1].has_left = True  # of the first that came meanwhile
        return requests

    combined, others = Combined(answer), [Waiting(n) for n in (2, 3)]
    others[0].has_left = True
    combined._waiting, combined._last = others, 3
    assert combined(1) == 1
    assert asked == [[1, 3]]
    assert others[1].outcome == 3
    assert not others[1]._asleep.locked()
    assert not combined._waiting
    assert combined._leader is None


def test_another_thread_takes_the_place_of_one_that_left_without_a_word():
    combined, gone = Combined(lambda requests: requests), Waiting(1)
    combined._leader, combined._waiting = gone, [gone]
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(combined, n) for n in (2, 3)]
        while len(combined._waiting) < 3:
            pass
        gone.has_left = True
        assert [call.result(60) for call in calls] == [2, 3]
    assert not gone.is_answered


@pytest.mark.skipif(current_thread() is not main_thread(), reason="signals come to the main thread")
def test_signals_stop_nobody_else():
    class StopError(BaseException):
        pass

    def stop(*_):
        raise StopError

    def work(number):
        answers = []
        while interrupted < 100:
            answers.append(combined((number, len(answers))))
        done.append(answers == [number + n for n in range(len(answers))])

    done, interrupted, wrong = [], 0, 0
    combined = Combined(lambda requests: [sum(request) for request in requests])
    before = signal.signal(signal.SIGALRM, stop)
    threads = [Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    while interrupted < 100:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + interrupted % 7))
            while True:
                wrong += combined((5, 6)) != 11
        except StopError:
            interrupted += 1
    signal.signal(signal.SIGALRM, before)
    for thread in threads:
        thread.join(20)
    assert done == [True] * 3
    assert not wrong


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
