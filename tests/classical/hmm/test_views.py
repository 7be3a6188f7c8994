import random
from dataclasses import replace

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, error_rate, inflected_pairs, phrase_pairs

from alignkit.classical.hmm import joint, views
from alignkit.classical.hmm.joint import fit_joint, fit_view, load_joint, matrix_elements
from alignkit.classical.hmm.link_probabilities import Attachment, PhraseEdges
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import UnitReader, View, ViewedText, trained_views
from alignkit.classical.priors import LexiconPrior
from alignkit.embeddings.levels import UNKNOWN
from alignkit.errors import AlignkitError
from alignkit.kernels.link_probabilities import HARDLY, NO_LINK
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.pipeline.settings import FitSettings
from alignkit.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

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


def test_collocations_are_units_and_their_words_get_all_their_links():
    pairs, planted = phrase_pairs(4)
    bitext = bitext_of(pairs)
    view = trained_views((View(joined=True),), bitext)[0]
    text = ViewedText(view, bitext)
    joined = [unit for unit in text.bitext.source.vocabulary if " " in unit]
    assert len(joined) > 15
    shapes, rng = text.bitext.shapes, np.random.default_rng(1)
    size = int(flat_offsets(shapes)[-1])
    scores = Scores(rng.normal(-1, 2, size).astype(np.float32), flat_offsets(shapes), shapes)
    found = text.of_words(scores, threads=2)
    given = rng.integers(0, UNKNOWN + 1, int(flat_offsets(bitext.shapes)[-1])).astype(np.uint8)
    levels = Scores(text.levels(given, threads=2).astype(np.float32), flat_offsets(shapes), shapes)
    words = Scores(given.astype(np.float32), flat_offsets(bitext.shapes), bitext.shapes)
    for m, (rows, columns) in enumerate(shapes):
        sides = text.bitext.target.words(m), text.bitext.source.words(m)
        row, column = (np.repeat(range(len(side)), [1 + unit.count(" ") for unit in side]) for side in sides)
        assert found[m].tolist() == scores[m][np.ix_(row, column)].tolist()
        for t, s in np.ndindex(rows, columns):
            own = words[m][np.ix_(row == t, column == s)]
            wanted = own[own < UNKNOWN].mean() if (own < UNKNOWN).any() else UNKNOWN
            assert levels[m][t, s] == np.floor(wanted + 0.5)
    both, alone = (fit_joint(bitext, views=views) for views in ((View(), View(joined=True)), (View(),)))
    assert error_rate(both.fitted_links, planted) < error_rate(alone.fitted_links, planted) - 0.005


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
    found = text.of_words(scores, threads=2)
    for m in range(len(bitext)):
        for t, rows in enumerate(groups[len(bitext) + m]):
            for s, columns in enumerate(groups[m]):
                units = scores[m][np.ix_(rows, columns)].astype(np.float64)
                chances = np.where(units <= HARDLY, 0, 1 / (1 + np.exp(-units)))
                merged = np.clip(chances.mean(axis=0).sum(), 0.003, 0.997)
                assert found[m][t, s] == pytest.approx(np.log(merged / (1 - merged)), abs=1e-4)


NEW_TEXT = [["Bab", "ABBA", "ba", "a b", "a"], [], ["abba", "ba", "CAB", "ba", "a", "b"], ["ΑΣ", "ΑΣ"]]


@pytest.mark.parametrize(
    "view", [View(), View(fold_case=False), View(letters=2), View(subwords=60), View(joined=True)], ids=repr
)
@pytest.mark.parametrize("most_kept", [3, 1000])
def test_readers_number_the_units_of_a_view_as_a_model_does(view, most_kept, monkeypatch):
    monkeypatch.setattr("alignkit.text.units.MOST_WORDS", most_kept)
    if view.subwords:
        view = replace(view, tokenizers=trained_views((view,), inflected()[0])[0].tokenizers)
    if view.joined:
        view = replace(view, collocations=(Vocabulary.from_tokens(["abba ba", "cab ba"]),) * 2)
    text = Bitext.from_sentences(NEW_TEXT, NEW_TEXT[::-1])
    plain = ViewedText(view, text)
    sides = plain.bitext.source, plain.bitext.target
    known = [Vocabulary.from_tokens(sorted(side.vocabulary)[::2]) for side in sides]
    readers = UnitReader(view, 0, known[0]), UnitReader(view, 1, known[1])
    for _ in range(2):  # the second time, words are remembered
        viewed = ViewedText(view, text, readers)
        for own, found, wanted in zip(known, (viewed.bitext.source, viewed.bitext.target), sides, strict=True):
            assert found.offsets.tolist() == wanted.offsets.tolist()
            names = [unit for m in range(len(text)) for unit in wanted.words(m)]
            assert [found.vocabulary[i] for i in found.tokens] == names
            assert [own.id(unit) for unit in names] == [i if i < len(own) else -1 for i in found.tokens.tolist()]
        scores = Scores.zeros(plain.bitext.shapes)
        scores.values[:] = np.linspace(-3, 3, len(scores.values))
        assert viewed.of_words(scores, 1) == plain.of_words(scores, 1)


def test_a_pair_alone_has_the_links_that_it_has_among_others():
    bitext = bitext_of(phrase_pairs(4, 60)[0])
    model = fit_joint(bitext, views=(View(), View(letters=3), View(subwords=60), View(joined=True)), threads=1)
    targets = [bitext.target.words(m) for m in range(9)]
    others = [[word[n % 2 :].title() for n, word in enumerate(bitext.source.words(m))] for m in range(9)]
    text = Bitext.from_sentences(others, targets)
    together = model.probabilities(text)
    for m in range(9):
        assert np.array_equal(model.probabilities(text.block(m, m + 1))[0], together[m])
        alone = Bitext.from_sentences([others[m]], [targets[m]])
        assert np.array_equal(model.probabilities(alone)[0], together[m])


def test_views_find_links_of_rare_forms():
    bitext, gold = inflected()
    words = evaluate(gold, fit_joint(bitext, views=(View(),)).fitted_links).aer
    views = fit_joint(bitext, views=(View(), View(letters=4), View(subwords=60)))
    assert len(views.models) == 3
    assert evaluate(gold, views.fitted_links).aer < words - 0.005


def test_threads_change_nothing_and_files_keep_everything(tmp_path):
    bitext = bitext_of(phrase_pairs(4, 60)[0])
    views = View(), View(letters=3), View(subwords=60), View(joined=True)
    one, two = (fit_joint(bitext, views=views, threads=threads) for threads in (1, 2))
    assert one.fitted_probabilities.values.tobytes() == two.fitted_probabilities.values.tobytes()
    for n, model in enumerate((one, two)):
        model.save(tmp_path / str(n))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    loaded = load_joint(tmp_path / "0")
    assert loaded.probabilities(bitext).values.tobytes() == one.probabilities(bitext).values.tobytes()
    assert loaded.score(bitext, "beta").values.tobytes() == one.score(bitext, "beta").values.tobytes()


def test_new_text_is_judged_by_the_mean_of_all_views(monkeypatch):
    monkeypatch.setattr(Attachment, "apply", lambda *_: np.empty(0, np.int64))
    monkeypatch.setattr(PhraseEdges, "cohesion", lambda *_: None)
    bitext, _ = inflected(60)
    new = bitext.block(5, 25)
    model = fit_joint(bitext, views=(View(), View(letters=3)), threads=1)
    viewed = [ViewedText(view, new).bitext for view in model.views]
    parts = zip(model.models, viewed, (True, False), strict=True)
    log_odds = [each.log_odds(text, are_words=are_words) for each, text, are_words in parts]
    found = replace(model, fitted=None).probabilities(new)
    for m, matrix in enumerate(found):
        mean = np.mean([each[m] for each in log_odds], axis=0, dtype=np.float64)
        assert matrix == pytest.approx(naive.judged(mean), abs=1e-4)


def test_views_of_a_small_text_learn_from_each_other_one_after_another(monkeypatch):
    """The same again, step by step; of a text that is not small, each view is fitted by itself."""
    monkeypatch.setattr(Attachment, "apply", lambda *_: np.empty(0, np.int64))
    monkeypatch.setattr(PhraseEdges, "cohesion", lambda *_: None)
    bitext, gold = inflected(90)
    seen = View(), View(letters=3), View(letters=5)
    model = fit_joint(bitext, views=seen, threads=2)
    viewed = [ViewedText(view, bitext) for view in seen]
    settings = replace(JOINT_SETTINGS, least_own=0.0, tolerance=0.08)
    weighted = replace(settings, likeness=0.6)
    odds, found = {}, {}
    for n in (0, 1, 2, 0):
        if odds:
            mean = np.mean([each for k, each in odds.items() if k != n], axis=0)
            level = np.where(mean <= HARDLY, 31, np.minimum(4 * np.log1p(np.exp(-mean)), 31)).astype(np.uint8)
            found[n] = fit_view(viewed[n], replace(weighted, lexical_iterations=2), 1, levels=level)[1]
        else:
            found[n] = fit_view(viewed[n], replace(settings, iterations=1), 1)[1]
        odds[n] = found[n].values.astype(np.float64)
    for m in range(len(bitext)):
        mean = np.mean([each[m] for each in found.values()], axis=0, dtype=np.float64)
        assert model.fitted_probabilities[m] == pytest.approx(naive.judged(mean), abs=1e-3)

    alone = fit_joint(bitext, views=seen, threads=1, co_training=0.0)
    monkeypatch.setattr(joint, "SMALL_TEXT", matrix_elements(bitext))
    large = fit_joint(bitext, settings, views=seen, threads=1)
    assert large.fitted_probabilities.values.tobytes() == alone.fitted_probabilities.values.tobytes()
    judged = fit_joint(bitext, views=seen, threads=1)  # words by all that a link may have given to itself
    assert judged.fitted_probabilities.values.tobytes() != large.fitted_probabilities.values.tobytes()
    each = [fit_view(text, settings, 1)[1].values for text in viewed]
    whole = Scores(np.mean(each, axis=0), alone.fitted_probabilities.offsets, bitext.shapes)
    for m in range(len(bitext)):
        assert alone.fitted_probabilities[m] == pytest.approx(naive.judged(whole[m]), abs=1e-3)
    assert evaluate(gold, model.fitted_links).aer < evaluate(gold, alone.fitted_links).aer


def test_subwords_need_a_text_with_enough_words():
    bitext, _ = inflected(3)
    assert trained_views((View(), View(subwords=4000)), bitext) == (View(),)
    many, views = inflected(60)[0], (View(), View(subwords=60))
    assert len(trained_views(views, many)) == 2
    assert trained_views(views, many.block(0, 2)) == (View(),)  # whose vocabulary is that of all pairs
    single = fit_joint(Bitext.from_sentences([["das", "Haus"]], [["the", "house"]]))
    assert single.fitted_links[0].tolist() == [[0, 0], [1, 1]]
    assert len(fit_joint(Bitext.from_sentences([], [])).fitted_links) == 0


def test_progress_runs_through_all_views():
    bitext, _ = inflected(20)
    seen = []
    fit_joint(bitext, views=(View(), View(letters=3)), progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][0] == seen[-1][1]
    names = list(dict.fromkeys(message.partition(",")[0] for _, _, message in seen))
    assert names == ["rough view 1", "view 2", "view 1"]


def frequent(pairs=420, types=1100, seed=3):
    """A text of many types, each of which occurs about twice."""
    draw = random.Random(seed)
    text = [[f"w{draw.randrange(types):04d}e" for _ in range(8)] for _ in range(pairs)]
    return Bitext.from_sentences(text, [[word[::-1] for word in words] for words in text])


def test_small_texts_are_looked_at_as_subwords_too(monkeypatch):
    bitext = frequent()
    elements = matrix_elements(bitext)
    monkeypatch.setattr(joint, "FEW_WORDS", 0)
    both = fit_joint(bitext, iterations=1)
    assert [view.has_words for view in both.views] == [True, False]
    counts = [len(tokenizer.vocabulary) for tokenizer in both.views[1].tokenizers]
    types = [len(side.vocabulary) for side in (bitext.source, bitext.target)]
    assert all(0.35 * n < count <= 0.4 * n for n, count in zip(types, counts, strict=True))
    units = matrix_elements(ViewedText(both.views[1], bitext).bitext)
    assert units > 4 * elements

    def views(text=bitext, **options):
        return len(fit_joint(text, iterations=1, **options).views)

    for limit, wanted in ((elements, 1), (units // 4, 1), (units // 4 + 1, 2)):
        monkeypatch.setattr(joint, "SMALL_TEXT", limit)
        assert views() == wanted
    # Of a sample, the size of the whole text decides.
    monkeypatch.setattr(joint, "SMALL_TEXT", units)
    assert (views(share_of_text=0.3), views(share_of_text=0.2)) == (2, 1)
    assert views(quality="fast") == 1
    assert views(bitext.block(0, 60)) == 1  # too few types
    assert views(fold_case=False) == 1
    word = Vocabulary.from_tokens(["w0001e"])
    lexicon = LexiconPrior(word, word, np.zeros((1, 2), np.int32), np.ones((1, 2), np.float32))
    assert views(prior=lexicon) == 1
    assert views(quality="best") == 3  # words of six letters, subwords, and their first four


def test_a_text_of_few_words_is_looked_at_in_several_ways(monkeypatch):
    bitext, gold = inflected(60)
    normal, best = (fit_joint(bitext, quality=quality, threads=1) for quality in ("normal", "best"))
    assert [(view.letters, view.subwords) for view in normal.views] == [(0, 0), (0, 1500), (0, 750), (4, 0)]
    assert best.fitted_probabilities.values.tobytes() == normal.fitted_probabilities.values.tobytes()
    words = {word.lower() for side in (bitext.source, bitext.target) for word in side.vocabulary}
    coarse, fine = (
        [len(tokenizer.pieces(word)) for tokenizer in view.tokenizers for word in words]
        for view in normal.views[1:3]
    )
    assert sum(coarse) < sum(fine)
    alone = fit_joint(bitext, views=(View(),))
    assert evaluate(gold, normal.fitted_links).aer < evaluate(gold, alone.fitted_links).aer - 0.02
    monkeypatch.setattr(joint, "FEW_WORDS", matrix_elements(bitext))
    assert len(fit_joint(bitext).views) == 1
    assert len(fit_joint(bitext, share_of_text=0.9).views) == 1
    monkeypatch.setattr(joint, "FEW_WORDS", matrix_elements(bitext) + 1)
    assert len(fit_joint(bitext, fold_case=False).views) == 1


def test_views_in_which_all_words_are_whole_are_left_out():
    chinese = Bitext.from_sentences([["你们", "好"], ["我们", "好"]], [["vous", "bien"], ["nous", "bien"]])
    views = View(), View(letters=1), View(letters=3), View(letters=4), View(letters=6)
    assert trained_views(views, chinese) == (View(), View(letters=1), View(letters=3))
    one = Bitext.from_sentences([["ab", "b"]], [["x", "xy"]])
    assert trained_views((View(), View(letters=2), View(subwords=60, types=1)), one) == (View(),)
    assert fit_joint(one).name == "hmm-joint"


def test_one_view_is_the_model_of_words():
    bitext = frequent()
    fast = fit_joint(bitext, quality="fast", iterations=10, lexical_iterations=3)
    one = fit_joint(bitext, views=(View(),))
    assert (one.name, len(one.models)) == ("hmm-joint", 1)
    assert one.fitted_probabilities.values.tobytes() == fast.fitted_probabilities.values.tobytes()
    with pytest.raises(AlignkitError, match="quality"):
        fit_joint(bitext, quality="perfect")


def test_a_fit_goes_on_from_models_of_several_views(tmp_path):
    bitext = frequent()
    first = fit_joint(bitext, iterations=1)
    first.save(tmp_path / "m")
    one, again = (fit_joint(bitext, iterations=2, start=start) for start in (first, load_joint(tmp_path / "m")))
    assert [view.tokenizers for view in one.views] == [view.tokenizers for view in first.views]
    assert one.fitted_probabilities.values.tobytes() == again.fitted_probabilities.values.tobytes()
    values, before = one.fitted_probabilities.values, first.fitted_probabilities.values
    assert np.abs(values - before).max() > 0.02
    words = replace(first, views=first.views[:1], models=first.models[:1])
    assert len(fit_joint(bitext, iterations=1, start=words).models) == 1


def test_what_is_said_of_words_does_not_depend_on_their_case():
    bitext, _ = inflected(60)
    model = fit_joint(bitext, views=(View(), View(letters=3)))
    new = bitext.block(3, 9)
    words = [[side.words(m) for m in range(6)] for side in (new.source, new.target)]
    upper = Bitext.from_sentences(*([[word.upper() for word in line] for line in side] for side in words))
    lower = Bitext.from_sentences(*([[word.lower() for word in line] for line in side] for side in words))
    assert model.score(upper, "beta").values.max() > 0.1
    assert model.score(upper, "beta").values.tobytes() == model.score(lower, "beta").values.tobytes()
    assert model.log_probabilities(upper).tolist() == model.log_probabilities(lower).tolist()
    assert model.reverse_log_probabilities(upper).tolist() == model.reverse_log_probabilities(lower).tolist()


def test_a_text_that_is_long_as_subwords_is_looked_at_as_words(monkeypatch):
    monkeypatch.setattr(joint, "FEW_WORDS", 0)
    bitext = frequent()
    sides = [[side.words(m) for m in range(len(bitext))] for side in (bitext.source, bitext.target)]
    wide = ["".join(f"{chr(97 + k % 26)}{k}" for k in range(n, n + 60)) for n in range(120)]
    for pairs, count in (([wide[:2]], 2), ([wide], 1)):
        text = Bitext.from_sentences(sides[0] + pairs, sides[1] + pairs)
        assert len(fit_joint(text, iterations=1).views) == count


def test_long_pairs_count_among_the_elements(monkeypatch):
    """They are not fitted on, but all views link them."""
    monkeypatch.setattr(views, "LARGEST_PAIR", 10_000)
    bitext, _ = inflected()
    sides = [[side.words(m) for m in range(len(bitext))] for side in (bitext.source, bitext.target)]
    for length, count in ((0, 4), (1_500, 1)):
        text = Bitext.from_sentences(*([*side, (side[0] * length)[:length]] for side in sides))
        assert sum(not view.joined for view in fit_joint(text, iterations=1).views) == count


def test_a_text_with_hardly_any_collocations_has_no_view_of_them():
    """Of 200 types, one pair of neighbours on the source side is too few, one on both sides is enough."""
    words = [f"w{n}" for n in range(92)]
    rest = [[word] for word in words]
    source = [["new", "york", "is"], ["in", "new", "york"], *rest, *[["new"]] * 4]
    other = [[word + "x" for word in line] for line in source]
    apart = [line[::-1] if line[:1] == ["newx"] else line for line in other]
    for target, count in ((apart, 1), (other, 2)):
        bitext = Bitext.from_sentences(source, target)
        assert sum(len(side.vocabulary) for side in (bitext.source, bitext.target)) == 192
        assert len(trained_views((View(), View(joined=True)), bitext)) == count


def test_units_of_very_long_words_are_bounded():
    bitext, _ = inflected()
    view = trained_views((View(subwords=60),), bitext)[0]
    long = Bitext.from_sentences([["walk" * 9000, "walk"]], [["talk" * 9000]])
    viewed = ViewedText(view, long).bitext
    assert (viewed.shapes <= [64, 64 + 4]).all()
    model = fit_joint(bitext, views=(View(), View(subwords=60)), iterations=1)
    assert len(model.links(long)) == 1


@pytest.mark.usefixtures("small_windows")
def test_pairs_that_are_long_as_subwords_only_are_linked_in_windows():
    model = fit_joint(bitext_of(inflected_pairs(1, 150)[0]), views=(View(subwords=120),))
    text, planted = inflected_pairs(2, 36)
    joined = bitext_of([tuple([word for pair in text for word in pair[side]] for side in (0, 1))])
    viewed = ViewedText(model.views[0], joined).bitext
    assert joined.shapes.prod() < views.LARGEST_PAIR < viewed.shapes.prod()
    starts = np.cumsum([0, *(len(source) for source, _ in text)]).tolist()
    links = [(s + start, t + start) for start, pair in zip(starts, planted, strict=False) for s, t in pair]
    assert error_rate(model.links(joined), [links]) < 0.1


def test_few_iterations_of_subwords_stay_few(monkeypatch):
    bitext, steps = inflected(60)[0], []
    views = View(), View(subwords=60)
    for quality, hurried_from, options, wanted in (
        ("normal", 1, {}, (4 + 12, 5)),
        ("fast", 1 << 20, {}, (4 + 12, 5)),  # the text is too small to hurry
        ("fast", 1, {}, (3 + 5, 5)),
        ("fast", 1 << 20, {"iterations": 2}, (4 + 4, 4)),
    ):
        steps.clear()
        monkeypatch.setattr(joint, "HURRIED_FROM", hurried_from)
        progress = lambda *step: steps.append(step)  # noqa: E731
        fit_joint(bitext, quality=quality, views=views, progress=progress, tolerance=0.0, **options)
        assert [sum(f"view {n}," in message for *_, message in steps) for n in (1, 2)] == list(wanted)
        assert [done for done, *_ in steps] == list(range(1, sum(wanted) + 1))
        assert {total for _, total, _ in steps} == {sum(wanted)}


def test_models_that_fold_case_cannot_keep_it():
    bitext = frequent(120, 300)
    start = fit_joint(bitext, views=(View(), View(letters=2)), iterations=1)
    with pytest.raises(AlignkitError, match="ignores case"):
        fit_joint(bitext, fold_case=False, start=start)
    with pytest.raises(AlignkitError, match="ignores case"):
        fit_joint(bitext, fold_case=False, quality="best")
    with pytest.raises(AlignkitError, match="ignores case"):
        FitSettings(quality="best", keep_case=True)
