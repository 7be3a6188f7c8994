import os

import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import (
    fit_joint,
    fixed_size,
    load_joint,
    pruned,
    pruned_to_pairs,
)
from alignkit.classical.hmm.views import View
from alignkit.errors import AlignkitError

MODEL = fit_joint(bitext_of(random_pairs(3, pairs=150, source_types=60, target_types=60)), views=(View(),))


def pairs_of(model):
    model = model.words
    rows = np.repeat(np.arange(model.table.shape[0]), np.diff(model.table.offsets))
    return dict(
        zip(zip(rows.tolist(), model.table.columns.tolist(), strict=True), model.counts.pairs, strict=True)
    )


def test_the_pairs_with_the_most_links_stay_as_they_were():
    smaller, before = pruned_to_pairs(MODEL, 100), pairs_of(MODEL)
    after = pairs_of(smaller)
    assert len(after) == 100
    assert after.items() <= before.items()
    dropped = [count for pair, count in before.items() if pair not in after]
    assert max(dropped) <= min(after.values())
    for i, o in after:
        assert smaller.words.table.value(i, o) == MODEL.words.table.value(i, o)
    assert pruned_to_pairs(MODEL, len(before)) is MODEL


@pytest.mark.parametrize("size", [30_000, 45_000, 10**7])
def test_a_file_is_not_larger_than_asked_for_and_makes_use_of_it(tmp_path, size):
    smaller, _ = pruned(MODEL, str(size))
    smaller.save(tmp_path / "m.npz")
    written = os.path.getsize(tmp_path / "m.npz")
    assert written <= size
    if len(smaller.words.table.values) < len(MODEL.words.table.values):
        assert written > size - 17_000
    bitext = bitext_of(random_pairs(4, pairs=20))
    loaded = load_joint(tmp_path / "m.npz")
    assert loaded.probabilities(bitext).values.tobytes() == smaller.probabilities(bitext).values.tobytes()
    assert len(Adapter(loaded).adapt(bitext).fitted_links) == len(bitext)


def test_a_table_that_keeps_the_lexicon_links_as_the_whole_one():
    model = fit_joint(bitext_of(permuted_copy(7)[0]))
    text = bitext_of(permuted_copy(8, pairs=60)[0])
    smaller = pruned_to_pairs(model, 40)  # the number of words
    same = sum(a.tolist() == b.tolist() for a, b in zip(smaller.links(text), model.links(text), strict=True))
    assert same >= 57


def test_sizes_and_what_is_said_about_them():
    smaller, said = pruned(MODEL, str(fixed_size(MODEL) + 16 * 100))
    assert said.startswith(f"100 of {len(MODEL.words.table.values):,} word pairs are kept")
    share = 1 - smaller.words.counts.pairs.sum() / MODEL.words.counts.pairs.sum()
    assert f"{share:.2%}" in said
    with pytest.raises(AlignkitError, match="the words of this text take"):
        pruned(MODEL, "1000")


def test_the_pairs_of_several_views_are_pruned_together(tmp_path):
    views = View(), View(letters=2), View(subwords=40)
    text = bitext_of(random_pairs(3, pairs=150, source_types=60, target_types=60))
    model = fit_joint(text, views=views)
    counts = np.concatenate([each.counts.pairs for each in model.models])
    smaller, said = pruned(model, str(fixed_size(model) + 16 * 300))
    kept = np.concatenate([each.counts.pairs for each in smaller.models])
    assert len(kept) == 300
    assert sorted(kept) == sorted(counts)[-300:]
    assert len({len(each.counts.pairs) for each in smaller.models}) > 1
    assert said.startswith(f"300 of {len(counts):,} word pairs are kept")
    size = fixed_size(model) + 16 * 1000
    pruned(model, str(size))[0].save(tmp_path / "m.npz")
    assert size - 17_000 * len(views) < os.path.getsize(tmp_path / "m.npz") <= size
    loaded = load_joint(tmp_path / "m.npz")
    same = pruned(model, str(size))[0].probabilities(text).values.tobytes()
    assert loaded.probabilities(text).values.tobytes() == same
    with pytest.raises(AlignkitError, match="the words of this text take"):
        pruned(model, "1000")


def test_a_model_without_pairs_loses_none():
    model = fit_joint(bitext_of([([], [])]), views=(View(),))
    assert pruned(model, "1M") == (model, "0 of 0 word pairs are kept; the others had 0.00% of all expected links")
