"""The probability of a sentence by a network, and a network behind alignkit align."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.scoring.evaluation import translation_log_probabilities
from alignkit.pipeline.aligned_text import AlignedText
from alignkit.text.bitext import Bitext
from alignkit.text.blocks import pair_batches
from alignkit.text.tokenization import BOS, encode_bitext
from alignkit_cli.main import run

from ..conftest import random_lines, small_network, untrained_aligner

ALL = {"probabilities": True, "scored": True, "words": True}


def test_log_probabilities_equal_one_token_at_a_time(bitext):
    """Each token's probability from the network run on its prefix alone."""
    network = small_network()
    found = translation_log_probabilities(network, bitext)
    for m, (x, y) in enumerate(zip(bitext.source, bitext.target, strict=True)):
        total = 0.0
        for t, token in enumerate(y):
            one = Bitext(bitext.source, bitext.target).take(np.array([m]))
            previous = torch.tensor([[BOS, *y[:t].tolist()]])
            with torch.inference_mode():
                source = torch.from_numpy(one.source.tokens.astype(np.int64))
                features = network(source[:, None], np.array([len(x)]), previous.T)
                total += torch.log_softmax(network.output(features.flatten(0, 1)[-1:]), 1)[0, int(token)].item()
        assert found[m] == pytest.approx(total, rel=1e-4)


def test_pairs_without_tokens_are_0():
    nothing = Bitext.from_sentences([[], ["a"]], [["b"], []])
    assert translation_log_probabilities(small_network(), nothing).tolist() == [0, 0]


@pytest.fixture
def aligner(tokenizer, bitext):
    return untrained_aligner(tokenizer, bitext)


def test_a_stream_gives_what_each_pair_gives_alone(aligner, tokenizer):
    source, target = random_lines(40, 5), random_lines(40, 6)
    data = "".join(f"{x} ||| {y}\n" for x, y in zip(source, target, strict=True)).encode()
    batches = list(pair_batches("-", [data], single=True))
    assert len(batches) == 40
    texts = [batch.bitext for batch in batches]
    parts = [next(AlignedText(text, aligner.on_words()).alignments(**ALL)) for text in texts]
    for m, part in enumerate(parts):
        x, y = source[m].split(), target[m].split()
        assert (list(part.source[0]), list(part.target[0])) == (x, y)
        bitext = encode_bitext(tokenizer, [source[m]], [target[m]])
        if x and y:
            total = translation_log_probabilities(aligner.network, bitext)[0]
            assert part.sentence_scores[0, 0] == pytest.approx(total / len(y), rel=1e-5)
            alpha = aligner.score(bitext, "alpha")[0][:-1, 1:-1]  # without EOS's row, and BOS and EOS as columns
            s, t = part.links.pairs.T
            assert part.probabilities.tolist() == pytest.approx(alpha[t, s].tolist(), rel=1e-4)
        else:
            assert np.isnan(part.sentence_scores[0, 0])
            assert len(part.links.pairs) == 0
    assert sum(len(part.links.pairs) for part in parts) > 5


def test_the_command_gives_a_network_one_pair_at_a_time(aligner, tmp_path, monkeypatch, capfdbinary):
    """Else the last bits of an answer would depend on what came with its question."""
    aligner.save(tmp_path / "x.pt")
    seen = []
    score = NeuralAligner.score
    monkeypatch.setattr(
        NeuralAligner, "score", lambda self, text, kind: seen.append(len(text)) or score(self, text, kind)
    )
    data = b"w1 w2 ||| w3\n ||| w1\nw4 w5 w6 ||| w7 w8\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    scores = ["--sentence-scores", str(tmp_path / "s"), "--threads", "1"]
    assert run(["align", "-q", "--model", str(tmp_path / "x.pt"), "-", *scores]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 3
    assert [line == "nan" for line in (tmp_path / "s").read_text().splitlines()] == [False, True, False]
    assert set(seen) == {1}
