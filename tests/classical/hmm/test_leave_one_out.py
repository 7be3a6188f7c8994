from dataclasses import replace

import pytest
from planted import bitext_of, emissions_of

from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import View
from alignkit.kernels.inference import LEAST_ELEMENTS
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks
from alignkit.metrics.aer import evaluate
from alignkit.text.pairs import read_bitext
from alignkit.text.units import folded_text
from alignkit_data import path


@pytest.fixture(scope="module")
def text():
    return read_bitext(str(path("train.de")), str(path("train.en")))


@pytest.fixture(scope="module")
def model(text):
    return fit_joint(text, views=(View(),))


def distance(model, text):
    """How far links of the model are from those of its fit, without attachment, as an error rate."""
    fitted = links_above(model.without_attachment.fitted_probabilities, model.threshold)
    return evaluate(GoldLinks(fitted, fitted), replace(model, attachment=None).links(text)).aer


def test_a_saved_model_links_its_own_text_nearly_as_the_fit_did(model, text, tmp_path, monkeypatch):
    model.save(tmp_path / "m.npz")
    saved = load_joint(tmp_path / "m.npz")
    with_own = distance(model, text)
    assert saved.links(text).to_strings() == model.links(text).to_strings()
    monkeypatch.setattr(model.words.inference_with_counts, "own", 0.0)
    assert with_own < 0.6 * distance(model, text)


def test_own_links_are_taken_out_of_the_counts(model, text):
    """For each pair by itself: (count - own + pseudo-count) / (total - own)."""
    words = [(text.source.words(m), text.target.words(m)) for m in range(20)] + [(["Haus", "."], ["house", "."])]
    model, pairs = model.words, folded_text(bitext_of(words))
    inference = model.inference_with_counts
    assert inference.own == pytest.approx(1, abs=0.2)
    ids, sizes = model.ids(pairs), pairs.source.lengths * pairs.target.lengths
    assert sizes.min() < LEAST_ELEMENTS < sizes.max()
    before, found = (emissions_of(inference, pairs, without_own=own) for own in (False, True))
    counts, place = model.counts.pairs, 0
    for m in range(len(pairs)):
        for o in (ids[1][i] for i in pairs.target[m]):
            for i in (ids[0][i] for i in pairs.source[m]):
                row = slice(model.table.offsets[i], model.table.offsets[i + 1])
                count = counts[row][model.table.columns[row] == o].sum()
                own = inference.own * min(float(count), 1.0)
                for side, (direction, x) in enumerate(zip(model.directions, (i, o), strict=True)):
                    total = JOINT_SETTINGS.dirichlet / float(direction.emission_floor[x])
                    expected = max(before[place, side] * total - own, 0) / (total - own)
                    if sizes[m] < LEAST_ELEMENTS:
                        expected = before[place, side]
                    assert found[place, side] == pytest.approx(expected, rel=1e-4, abs=1e-6)
                place += 1


def test_pairs_of_other_texts_keep_all_counts(model, text):
    pairs = [([*text.source.words(m), "neu"], text.target.words(m)) for m in range(30)]
    bitext, inference = folded_text(bitext_of(pairs)), model.words.inference_with_counts
    emissions = [emissions_of(inference, bitext, without_own=own) for own in (False, True)]
    assert (emissions[0] == emissions[1]).all()


def test_a_model_without_pseudo_counts_keeps_its_counts(text):
    plain = fit_joint(text, dirichlet=0.0, back_off=0.0, spelling=0.0, leave_one_out=False).words
    assert plain.inference_with_counts.own == 0
