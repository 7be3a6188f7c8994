from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm import background
from alignkit.classical.hmm.background import LEAST_ELEMENTS, LeaveOneOut
from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import View
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks
from alignkit.metrics.aer import evaluate
from alignkit.text.pairs import read_bitext
from alignkit.text.units import lowercased
from alignkit_data import path


@pytest.fixture(scope="module")
def text():
    return read_bitext(str(path("train.de")), str(path("train.en")))


@pytest.fixture(scope="module")
def model(text):
    return fit_joint(text, views=(View(),))


def distance(model, text):
    """How far links of the model are from those of its fit, without attachment, as an error rate."""
    fitted = links_above(model.unattached_probabilities(text), model.threshold)
    return evaluate(GoldLinks(fitted, fitted), replace(model, attachment=None).links(text)).aer


def test_a_saved_model_links_its_own_text_nearly_as_the_fit_did(model, text, tmp_path, monkeypatch):
    model.save(tmp_path / "m.npz")
    saved = load_joint(tmp_path / "m.npz")
    with_own = distance(model, text)
    assert saved.links(text).to_strings() == model.links(text).to_strings()
    monkeypatch.setattr(LeaveOneOut, "take_out", lambda *arguments: None)
    assert with_own < 0.6 * distance(model, text)


@pytest.mark.parametrize("block", [background.CHANGED_ELEMENTS, 300])
def test_own_links_are_taken_out_of_the_counts(model, text, monkeypatch, block):
    """For each pair by itself: (count - own + pseudo-count) / (total - own)."""
    words = [(text.source.words(m), text.target.words(m)) for m in range(20)] + [(["Haus", "."], ["house", "."])]
    monkeypatch.setattr(background, "CHANGED_ELEMENTS", block)
    model = model.words
    part, pairs = LeaveOneOut(model, model.counts), lowercased(bitext_of(words))
    assert part.share == pytest.approx(1, abs=0.2)
    ids, sizes = model.ids(pairs), pairs.source.lengths * pairs.target.lengths
    assert sizes.min() < LEAST_ELEMENTS < sizes.max()
    evidence = np.random.default_rng(0).uniform(0.1, 0.9, (int(sizes.sum()), 3)).astype(np.float32)
    before = evidence.copy()
    part.take_out(pairs, ids, np.zeros(len(evidence), bool), evidence, threads=1)
    counts, place = model.counts.pairs, 0
    for m in range(len(pairs)):
        for o in (ids[1][i] for i in pairs.target[m]):
            for i in (ids[0][i] for i in pairs.source[m]):
                row = slice(model.table.offsets[i], model.table.offsets[i + 1])
                count = counts[row][model.table.columns[row] == o].sum()
                own = part.share * min(float(count), 1.0)
                for side, (direction, x) in enumerate(zip(model.directions, (i, o), strict=True), 1):
                    total = JOINT_SETTINGS.dirichlet / float(direction.emission_floor[x])
                    expected = max(before[place, side] * total - own, 0) / (total - own)
                    if sizes[m] < LEAST_ELEMENTS:
                        expected = before[place, side]
                    assert evidence[place, side] == pytest.approx(expected, rel=1e-4, abs=1e-6)
                place += 1


def test_pairs_of_other_texts_keep_all_counts(model, text):
    pairs, model = lowercased(text.block(0, 30)), model.words
    sizes = pairs.source.lengths * pairs.target.lengths
    is_new = np.zeros(int(sizes.sum()), bool)
    is_new[np.concatenate([[0], np.cumsum(sizes)[:-1]])] = True  # one word pair of each
    evidence = np.full((len(is_new), 3), 0.5, np.float32)
    LeaveOneOut(model, model.counts).take_out(pairs, model.ids(pairs), is_new, evidence, threads=1)
    assert (evidence == 0.5).all()


def test_a_model_without_pseudo_counts_keeps_its_counts(text):
    plain = fit_joint(text, dirichlet=0.0, back_off=0.0, spelling=0.0, leave_one_out=False).words
    assert LeaveOneOut(plain, plain.counts).share == 0
