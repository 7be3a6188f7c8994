from dataclasses import replace

import numpy as np
import pytest
from naive_hmm import judged
from planted import bitext_of, error_rate, inflected_pairs, random_pairs, scrambled

from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.joint_views import fit_views, load_views
from alignkit.classical.hmm.link_odds import VIEWS_CERTAINTY
from alignkit.classical.hmm.views import View, ViewedText
from alignkit.classical.hmm.views_adaptation import ViewsAdapter, adapter_of
from alignkit.errors import AlignkitError

VIEWS = View(), View(letters=3), View(subwords=120)


def foreign(text):
    """The text in words that no code turns into each other."""
    return [([scrambled("s" + word) for word in x], [scrambled(word) for word in y]) for x, y in text]


def test_several_views_learn_words_that_they_do_not_know():
    model = fit_views(bitext_of(inflected_pairs(1, 150)[0]), views=VIEWS)
    assert len(model.models) == 3
    text, planted = inflected_pairs(2, 40)
    new = bitext_of(foreign(text) * 3)
    assert error_rate(ViewsAdapter(model).adapt(new).fitted_links, planted * 3) < 0.6 * error_rate(
        model.links(new), planted * 3
    )


def test_the_log_odds_of_adapted_views_are_averaged():
    text = bitext_of(random_pairs(3, pairs=100, source_types=40, target_types=40))
    model = fit_views(text, views=VIEWS[:2])
    bitext = text.block(0, 30).with_own_words()
    counted = np.arange(30) < 7
    found = ViewsAdapter(model, threads=1).adapt(bitext, counted)
    parts = [
        Adapter(each).log_odds(ViewedText(view, bitext).bitext, counted)[1]
        for view, each in zip(model.views, model.models, strict=True)
    ]
    for m, matrix in enumerate(found.fitted_probabilities):
        mean = np.mean([part[m] for part in parts], axis=0, dtype=np.float64)
        assert matrix == pytest.approx(judged(mean, VIEWS_CERTAINTY), abs=1e-4)
    without = ViewsAdapter(model).adapt(bitext).fitted_probabilities.values
    assert np.abs(without - found.fitted_probabilities.values).max() > 0.01


def test_one_text_after_another_by_any_threads_and_from_a_file(tmp_path):
    model = fit_views(bitext_of(inflected_pairs(5, 150)[0]), views=VIEWS)
    model.save(tmp_path / "m.npz")
    first, second = (bitext_of(inflected_pairs(seed, 30)[0]) for seed in (6, 7))
    adapter = ViewsAdapter(model, threads=1)
    adapter.adapt(first)
    after = adapter.adapt(second).fitted_probabilities.values.tobytes()
    for threads in (1, 3):
        other = ViewsAdapter(load_views(tmp_path / "m.npz"), threads=threads).adapt(second)
        assert other.fitted_probabilities.values.tobytes() == after


def test_views_of_blank_and_long_pairs():
    text, _ = inflected_pairs(6, 500)
    model = fit_views(bitext_of(text[:150]), views=VIEWS)
    adapter = ViewsAdapter(model)
    long = [word for x, _ in text for word in x][:2100], [word for _, y in text for word in y][:2100]
    pairs = [([], ["a00z1"]), (["a00q1"], []), (["new"], ["neu"]), long]
    links, probabilities = adapter.links_and_probabilities(bitext_of(pairs), np.array([True, False, True, False]))
    assert [len(pair) for pair in links][:3] == [0, 0, 1]
    assert links[3].tolist() == model.links(bitext_of([long]))[0].tolist() != []
    assert len(probabilities) == int(links.offsets[-1])
    for few in ([], [([], [])], pairs[3:4]):
        assert len(adapter.adapt(bitext_of(few)).fitted_links) == len(few)


def test_who_adapts_a_model():
    text = bitext_of(inflected_pairs(8, 30)[0])
    model = fit_views(text, views=VIEWS[:2])
    assert isinstance(adapter_of(model), ViewsAdapter)
    assert isinstance(adapter_of(fit_joint(text)), Adapter)
    without = tuple(replace(each, counts=None) for each in model.models)
    with pytest.raises(AlignkitError, match="counts"):
        adapter_of(replace(model, models=without))
