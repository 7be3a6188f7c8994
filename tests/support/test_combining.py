"""Requests of several threads, answered together."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

import alignkit
from alignkit.support.combining import Combined, combined_texts


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


def test_after_an_interrupt_what_has_an_answer_is_not_asked_again():
    def answer(requests):
        asked.append(requests)
        if requests == [2]:
            raise KeyboardInterrupt
        return [1 / (len(requests) == 1)]

    asked, combined, futures = [], Combined(answer, 64), [Future() for _ in range(3)]
    combined._waiting.extend(zip((1, 2, 3, 5), [*futures, Future()], strict=True))
    with pytest.raises(KeyboardInterrupt):
        combined(4)
    assert asked == [[1, 2, 3, 5, 4], [1], [2]]
    assert futures[0].result() == 1
    assert [request for request, _ in combined._waiting] == [2, 3, 5]


def test_texts_are_joined_and_their_answers_cut_apart():
    combined = combined_texts(lambda source, target: [*zip(source, target, strict=True)], alone=False)
    texts = [(["a"], ["A"]), ([], []), (["b", "c"], ["B", "C"])]
    assert combined.answer(texts) == [[("a", "A")], [], [("b", "B"), ("c", "C")]]
    assert combined.answer(texts[2:]) == [[("b", "B"), ("c", "C")]]
    for wrong in ((["d"], ["D", "E"]), (["d", "e"], ["D"])):
        with pytest.raises(ValueError, match="whose sides differ in length is to be answered alone"):
            combined.answer([*texts, wrong])
    assert [combined_texts(print, alone).most for alone in (False, True)] == [64, 1]


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
