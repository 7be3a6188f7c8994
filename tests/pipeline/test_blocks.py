"""Texts aligned by a model of a sample of their pairs, or a part at a time."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.hmm import joint
from alignkit.classical.hmm.adaptation import Adapter
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.pipeline.align import align, align_blocks, sample_share
from alignkit.text.blocks import element_bounds, sampled_pairs

PAIRS = random_pairs(31, pairs=70, source_types=40, target_types=40)
BITEXT = bitext_of(PAIRS)


@pytest.fixture(scope="module")
def model():
    return fit_joint(bitext_of(random_pairs(32, pairs=90)))


@pytest.fixture
def files(tmp_path, set_blocks):
    """The text in two files; blocks have sixteen pairs."""
    set_blocks(BLOCK=16, ADAPTED_ELEMENTS=400)
    for name, side in (("src", 0), ("tgt", 1)):
        (tmp_path / name).write_text("".join(" ".join(pair[side]) + "\n" for pair in PAIRS))
    return tmp_path / "src", tmp_path / "tgt"


def joined(texts):
    texts = list(texts)
    links = Links.concatenated([text.links for text in texts]).to_pharaoh()
    return links, np.concatenate([text.probabilities for text in texts]).tobytes()


@pytest.mark.parametrize("adapt", [False, True])
def test_parts_joined_are_the_whole(files, model, adapt):
    whole = joined([align(*files, model=model, adapt=adapt)])
    assert joined(align_blocks(*files, model=model, adapt=adapt).texts) == whole
    for n in (3, 11):
        shards = [
            list(align_blocks(*files, model=model, shard=(i, n), adapt=adapt).texts) for i in range(1, n + 1)
        ]
        sizes = [sum(map(len, shard)) for shard in shards]
        assert joined(text for shard in shards for text in shard) == whole
        assert adapt or max(sizes) - min(sizes) <= 1
    assert joined([align(BITEXT, model=model, adapt=adapt)]) == whole


@pytest.mark.parametrize("way", ["fit", "sample", "model", "adapted", "adapted blocks"])
def test_links_are_where_alpha_is_of_a_text_and_of_its_slices(files, model, way):
    texts = {
        "fit": lambda: [align(*files)],
        "sample": lambda: align_blocks(*files, fit_on="100%").texts,
        "model": lambda: [align(*files, model=model)],
        "adapted": lambda: [align(*files, model=model, adapt=True)],
        "adapted blocks": lambda: align_blocks(*files, model=model, adapt=True).texts,
    }[way]()
    for text in texts:
        text = replace(text, ids=tuple(range(len(text))))
        whole = text.score()
        for part in (text, text[9:1:-2], text[2:9][1::3]):
            for pair, alpha, m in zip(part, part.score(), part.ids, strict=True):
                assert (alpha == whole[m]).all()
                assert [alpha[t, s] for s, t, _ in pair.links] == [link.probability for link in pair.links]
                assert (alpha > 0.5).sum() == len(pair.links)
                assert pair.coverage == text.coverage(m)
        assert part.ids == tuple(range(len(text)))[2:9][1::3]


def test_a_model_of_all_pairs_gives_what_a_fit_gives(files):
    fitted = align(*files)
    fit = align_blocks(*files, fit_on="100%")
    assert (fit.low, fit.high, fit.pairs) == (0, 76, 76)
    assert joined(fit.texts) == joined([fitted])


def test_all_pairs_have_the_links_of_the_model_of_the_sample_adapted_to_their_block(files):
    sample = sampled_pairs(76, 30, seed=5)
    fitted = fit_joint(BITEXT.take(sample))
    fit = align_blocks(*files, fit_on=30, seed=5)
    assert fit.aligner.fitted is None
    counted = np.isin(np.arange(76), sample)
    bounds = element_bounds([BITEXT], 400).tolist()
    assert len(bounds) > 3
    for text, (low, high) in zip(fit.texts, pairwise(bounds), strict=True):
        block = BITEXT.block(low, high).with_own_words()
        adapted = Adapter(fitted).adapt(block, counted[low:high]).fitted_links
        assert [pair.tolist() for pair in text.links] == [pair.tolist() for pair in adapted]


@pytest.mark.parametrize("options", [{}, {"symmetrization": "union"}, {"reverse": True}])
@pytest.mark.parametrize("method", ["ibm1", "hmm"])
def test_other_models_link_all_pairs_alike(files, options, method):
    model = align(BITEXT.take(sampled_pairs(76, 38)), method=method, **options).aligner
    fit = align_blocks(*files, fit_on="50%", method=method, **options)
    assert joined(fit.texts)[0] == model.links(BITEXT).to_pharaoh()


def test_the_sample_fit_depends_on_its_seed_alone(files):
    one, again, other = (
        joined(align_blocks(*files, fit_on=20, seed=seed, threads=n).texts) for seed, n in ((1, 1), (1, 3), (2, 1))
    )
    assert one == again
    assert one != other


def test_sizes_of_samples():
    sizes = {"7": 7, "5000": 1000, "10%": 100, "0.01%": 1, " 33.3 % ": 333, "66.66%": 667, "100%": 1000}
    assert {text: sample_share(text)(1000) for text in sizes} == sizes
    for wrong in ("", "0", "-1", "0%", "101%", "many", "10 pairs", "1e3", "%", "9" * 40):
        with pytest.raises(AlignkitError, match="is not a number"):
            sample_share(wrong)


def test_only_joint_models_are_adapted(files, tmp_path):
    model = fit_ibm1(BITEXT)
    model.save(tmp_path / "m.npz")
    for each, name in ((model, ""), (tmp_path / "m.npz", r".*m\.npz: ")):
        with pytest.raises(AlignkitError, match=f"^{name}a model of kind ibm1 cannot be adapted"):
            align_blocks(*files, model=each, adapt=True)


@pytest.mark.parametrize(
    ("options", "raw"), [({"model": fit_ibm1(BITEXT)}, 16), ({"fit_on": "50%", "method": "ibm1"}, 70)]
)
def test_that_a_text_seems_to_be_raw_is_said_once(tmp_path, set_blocks, caplog, options, raw):
    """By its first block, or by the sample."""
    set_blocks(BLOCK=16)
    lines = ["Yes, this is good. ||| Ja, das ist gut.\n"] * raw + ["yes ||| ja\n"] * (70 - raw)
    (tmp_path / "raw").write_text("".join(lines))
    assert len(list(align_blocks(tmp_path / "raw", **options).texts)) > 3
    assert caplog.text.count("the text seems to be raw, with words such as") == 1


def test_words_that_only_one_block_has_are_learned_from_it(tmp_path, set_blocks):
    """A lexicon of its own in the second block of twenty pairs, of which the sample has none."""
    set_blocks(ADAPTED_ELEMENTS=20 * 25)
    draw = random.Random(4)
    text = []
    for m in range(40):
        words = [f"{'kqx'[w % 3]}{w}" for w in draw.sample(range(12) if m < 20 else range(12, 24), 4)]
        text.append((words, [f"{'zvb'[int(w[1:]) % 3]}{w[1:]}e" for w in words]))
    for name, side in (("s", 0), ("t", 1)):
        (tmp_path / name).write_text("".join(" ".join(pair[side]) + "\n" for pair in text))
    model = fit_joint(bitext_of(text[:20]))
    texts = list(align_blocks(tmp_path / "s", tmp_path / "t", model=model, adapt=True).texts)
    diagonal = [[[k, k] for k in range(4)]] * 20
    assert sum(a == b for a, b in zip([p.tolist() for p in texts[1].links], diagonal, strict=True)) > 15


def test_the_size_of_the_whole_text_decides_whether_a_sample_is_looked_at_as_subwords(tmp_path, monkeypatch):
    draw = random.Random(1)
    lines = [[f"w{draw.randrange(1500):04d}" for _ in range(8)] for _ in range(900)]
    for name, letter in (("src", "w"), ("tgt", "x")):
        text = "".join(" ".join(word.replace("w", letter) for word in line) + "\n" for line in lines)
        (tmp_path / name).write_text(text)
    sides, elements = (tmp_path / "src", tmp_path / "tgt"), 900 * 64
    monkeypatch.setattr(joint, "FEW_WORDS", 0)
    for limit, name in ((3 * elements, "hmm-views"), (elements - 999, "hmm-joint")):
        monkeypatch.setattr(joint, "SMALL_TEXT", limit)
        assert align_blocks(*sides, fit_on="50%", iterations=1).aligner.name == name
