import random
from dataclasses import replace

import naive_hmm as naive
import numpy as np
import pytest

from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.joint_views import fit_views, load_views
from alignkit.classical.hmm.link_odds import VIEWS_CERTAINTY
from alignkit.classical.hmm.views import View, ViewedText, trained_views
from alignkit.kernels.link_odds import NO_LINK
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext

STEMS = ["walk", "talk", "jump", "look", "sing", "dance", "play", "work", "cook", "read"]


def inflected(pairs=150, seed=2):
    """Stems with endings: most forms are rare, their parts are not."""
    draw = random.Random(seed)
    endings = [f"{a}{b}" for a in "aeiou" for b in "mnrst"]
    source, target, truth = [], [], []
    for _ in range(pairs):
        stems = [draw.choice(STEMS) for _ in range(5)]
        source.append([stem + draw.choice(endings) for stem in stems])
        order = draw.sample(range(5), 5)
        target.append([stems[k][::-1].upper() + draw.choice(endings) for k in order])
        truth.append([(k, t) for t, k in enumerate(order)])
    return Bitext.from_sentences(source, target), GoldLinks(*[Links.from_lists(truth)] * 2)


def test_units_of_each_view():
    bitext = Bitext.from_sentences([["Walking", "a"]] * 3, [["Häuser", "x", "y"]] * 3)
    viewed = ViewedText(View(letters=4), bitext).bitext
    assert (viewed.source.words(0), viewed.target.words(0)) == (["walk", "a"], ["häus", "x", "y"])
    assert ViewedText(View(), bitext).bitext.source.words(0) == ["walking", "a"]


def test_subwords_spell_the_words_and_links_are_merged():
    bitext, _ = inflected()
    view = trained_views((View(subwords=60),), bitext)[0]
    text = ViewedText(view, bitext)
    assert len(text.bitext.source.tokens) > len(bitext.source.tokens)
    groups = []
    for side, units in ((bitext.source, text.bitext.source), (bitext.target, text.bitext.target)):
        for m in range(len(bitext)):
            pieces, words = units.words(m), side.words(m)
            starts = [k for k, piece in enumerate(pieces) if piece.startswith("\u2581")]
            assert "".join(pieces).replace("\u2581", " ").split() == [word.lower() for word in words]
            groups.append(np.split(np.arange(len(pieces)), starts[1:]))
    shapes = text.bitext.shapes
    rng = np.random.default_rng(1)
    size = int(flat_offsets(shapes)[-1])
    log_odds = np.where(rng.random(size) < 0.3, NO_LINK, rng.normal(-1, 2, size)).astype(np.float32)
    scores = Scores(np.clip(log_odds, NO_LINK, -NO_LINK), flat_offsets(shapes), shapes)
    offsets = flat_offsets(bitext.shapes)
    total = Scores(np.ones(offsets[-1], np.float32), offsets, bitext.shapes)
    text.add(scores, 0.5, total, threads=2)
    for m in range(len(bitext)):
        for t, rows in enumerate(groups[len(bitext) + m]):
            for s, columns in enumerate(groups[m]):
                units = scores[m][np.ix_(rows, columns)].astype(np.float64)
                chances = np.where(units <= NO_LINK, 0, 1 / (1 + np.exp(-units)))
                merged = np.clip(chances.mean(axis=0).sum(), 0.003, 0.997)
                assert total[m][t, s] == pytest.approx(1 + 0.5 * np.log(merged / (1 - merged)), abs=1e-4)


def test_views_find_links_of_rare_forms():
    bitext, gold = inflected()
    words = evaluate(gold, fit_joint(bitext).fitted_links).aer
    views = fit_views(bitext, views=(View(), View(letters=4), View(subwords=60)))
    assert len(views.models) == 3
    assert evaluate(gold, views.fitted_links).aer < words - 0.02


def test_threads_change_nothing_and_files_keep_everything(tmp_path):
    bitext, _ = inflected(60)
    views = View(), View(letters=3), View(subwords=60)
    one, two = (fit_views(bitext, views=views, threads=threads) for threads in (1, 2))
    assert one.fitted_probabilities.values.tobytes() == two.fitted_probabilities.values.tobytes()
    for n, model in enumerate((one, two)):
        model.save(tmp_path / str(n))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    loaded = load_views(tmp_path / "0")
    assert loaded.probabilities(bitext).values.tobytes() == one.probabilities(bitext).values.tobytes()
    assert loaded.score(bitext, "beta").values.tobytes() == one.words.score(bitext, "beta").values.tobytes()


def test_new_text_is_judged_by_the_mean_of_all_views():
    bitext, _ = inflected(60)
    new = bitext.block(5, 25)
    model = fit_views(bitext, views=(View(), View(letters=3)), threads=1)
    viewed = [ViewedText(view, new).bitext for view in model.views]
    log_odds = [each.whole_log_odds(text) for each, text in zip(model.models, viewed, strict=True)]
    found = replace(model, fitted=None).probabilities(new)
    for m, matrix in enumerate(found):
        mean = np.mean([each[m] for each in log_odds], axis=0, dtype=np.float64)
        assert matrix == pytest.approx(naive.judged(mean, VIEWS_CERTAINTY), abs=1e-4)


def test_subwords_need_a_text_with_enough_words():
    bitext, _ = inflected(3)
    assert trained_views((View(), View(subwords=4000)), bitext) == (View(),)
    many, views = inflected(60)[0], (View(), View(subwords=60))
    assert len(trained_views(views, many)) == 2
    assert trained_views(views, many.block(0, 2)) == (View(),)  # whose vocabulary is that of all pairs
    single = fit_views(Bitext.from_sentences([["das", "Haus"]], [["the", "house"]]))
    assert single.fitted_links[0].tolist() == [[0, 0], [1, 1]]
    assert len(fit_views(Bitext.from_sentences([], [])).fitted_links) == 0


def test_progress_runs_through_all_views():
    bitext, _ = inflected(20)
    seen = []
    fit_views(bitext, views=(View(), View(letters=3)), progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][0] == seen[-1][1]
    assert seen[-1][2].startswith("view 2")
