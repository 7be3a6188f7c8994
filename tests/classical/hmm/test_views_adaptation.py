from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of, error_rate, inflected_pairs, phrase_pairs, random_pairs, scrambled

from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.views import View

VIEWS = View(), View(letters=3), View(subwords=120)


def foreign(text):
    """The text in words that no code turns into each other."""
    return [([scrambled("s" + word) for word in x], [scrambled(word) for word in y]) for x, y in text]


def test_several_views_learn_words_that_they_do_not_know():
    model = fit_joint(bitext_of(inflected_pairs(1, 150)[0]), views=VIEWS)
    assert len(model.models) == 3
    text, planted = inflected_pairs(2, 40)
    new = bitext_of(foreign(text) * 3)
    assert error_rate(Adapter(model).adapt(new).fitted_links, planted * 3) < 0.6 * error_rate(
        model.links(new), planted * 3
    )


def test_words_joined_in_the_model_are_joined_in_another_text():
    model, words = (
        fit_joint(bitext_of(phrase_pairs(1)[0]), views=views) for views in ((View(), View(joined=True)), (View(),))
    )
    text, planted = phrase_pairs(2, 40)
    new = bitext_of(text)
    adapted, adapted_words = (Adapter(each).adapt(new) for each in (model, words))
    assert set(adapted.models[1].source) & set(model.views[1].collocations[0])
    assert error_rate(adapted.fitted_links, planted) < error_rate(adapted_words.fitted_links, planted) - 0.005
    assert error_rate(model.links(new), planted) < error_rate(words.links(new), planted) - 0.005


def test_the_log_odds_of_adapted_views_are_averaged():
    text = bitext_of(random_pairs(3, pairs=100, source_types=40, target_types=40))
    model = fit_joint(text, views=VIEWS[:2])
    bitext = text.block(0, 30).with_own_words()
    counted = np.arange(30) < 7
    found = Adapter(model, threads=1).adapt(bitext, counted)
    parts = [
        Adapter(replace(model, views=(view,), models=(each,)), threads=1).adapt(bitext, counted)
        for view, each in zip(model.views, model.models, strict=True)
    ]
    for one, own in zip(parts, found.models, strict=True):
        assert one.words.counts.pairs.tobytes() == own.counts.pairs.tobytes()
    assert found.fitted_probabilities.values.max() > 0.5
    without = Adapter(model).adapt(bitext).fitted_probabilities.values
    assert np.abs(without - found.fitted_probabilities.values).max() > 0.01


def test_one_text_after_another_by_any_threads_and_from_a_file(tmp_path):
    model = fit_joint(bitext_of(inflected_pairs(5, 150)[0]), views=VIEWS)
    model.save(tmp_path / "m.npz")
    first, second = (bitext_of(inflected_pairs(seed, 30)[0]) for seed in (6, 7))
    adapter = Adapter(model, threads=1)
    adapter.adapt(first)
    after = adapter.adapt(second).fitted_probabilities.values.tobytes()
    for threads in (1, 3):
        other = Adapter(load_joint(tmp_path / "m.npz"), threads=threads).adapt(second)
        assert other.fitted_probabilities.values.tobytes() == after


@pytest.mark.usefixtures("small_windows")
def test_views_of_blank_and_long_pairs():
    text, _ = inflected_pairs(6, 150)
    model = fit_joint(bitext_of(text), views=VIEWS)
    adapter = Adapter(model)
    long = [word for x, _ in text for word in x][:530], [word for _, y in text for word in y][:530]
    pairs = [([], ["a00z1"]), (["a00q1"], []), (["new"], ["neu"]), long]
    links, probabilities = adapter.links_and_probabilities(bitext_of(pairs), np.array([True, False, True, False]))
    assert [len(pair) for pair in links][:3] == [0, 0, 1]
    assert links[3].tolist() == model.links(bitext_of([long]))[0].tolist() != []
    assert len(probabilities) == int(links.offsets[-1])
    for few in ([], [([], [])], pairs[3:4]):
        assert len(adapter.adapt(bitext_of(few)).fitted_links) == len(few)
