"""Data-parallel training: the parts of a batch, and the sum of their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.distributed.group import Group
from alignkit.errors import AlignkitError
from alignkit.neural.training.data_parallel import split_batch, sum_gradients
from alignkit.neural.training.guidance import word_guide
from alignkit.neural.training.translation import translation_trainer
from alignkit.text.tokenization import encode_bitext, learn_words

from ..conftest import WORDS, small_settings
from . import test_guidance
from .test_ranks import plain


def test_parts_of_a_batch() -> None:
    assert [part.tolist() for part in split_batch(np.arange(5), 3)] == [[0, 1], [2, 3], [4]]
    assert [part.tolist() for part in split_batch(np.arange(2), 3)] == [[0], [1]]
    loss = torch.tensor(2.0)
    assert sum_gradients(Group(), [], loss) is loss
    with pytest.raises(AlignkitError, match="parts must be a whole number from 1"):
        small_settings(parts=0)


def test_parts_have_the_gradient_of_the_whole_batch() -> None:
    """Targets and guided tokens are spread unevenly over the parts, so that each needs its own weight."""
    text, tokenizer = test_guidance.TEXT, learn_words(WORDS)
    bitext = encode_bitext(tokenizer, *text)
    guide = word_guide(test_guidance.BACKWARDS, text, bitext, tokenizer)
    found = []
    for parts in (1, 3):
        settings = plain(batch=7, parts=parts, buckets=False, guide_weight=2.0, label_smoothing=0.1)
        trainer = translation_trainer(bitext, bitext, settings, tokenizer, device="cpu", guide=guide)
        network, batch = trainer.network.train(), trainer.task.batches(0)[0]
        assert len({*bitext.target.lengths[batch].tolist()}) > 1
        losses = [trainer.task.backward(network, part, batch, 0) for part in split_batch(batch, parts)]
        found.append([sum(losses), *(each.grad for each in network.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)
