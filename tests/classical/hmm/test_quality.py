"""The best aligner on real text, where there is some: a folder like that of benchmarks/quality.py."""

import os
from pathlib import Path

import pytest

from alignkit.classical.hmm.joint import fit_joint
from alignkit.links.links import Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines

DATA = os.environ.get("ALIGNKIT_DATA")
#: one point below the best that eflomal, sil-thot and GIZA++ reach over all ways to join directions
GOALS = {"cdt_da_en": 0.124, "ult_hbo_en": 0.242}
SLOW = {"hansards_en_fr": 0.093, "europarl_de_en": 0.180}


def aer(name, tmp_path):
    if not DATA:
        pytest.skip("ALIGNKIT_DATA does not name a folder of data")
    folder = Path(DATA) / "aer" / name
    if not folder.exists():
        pytest.skip(f"there is no {name} in ALIGNKIT_DATA")
    for side in ("src", "tgt"):
        text = "".join((folder / f"{part}.{side}").read_bytes().decode().lower() for part in ("test", "train"))
        (tmp_path / side).write_bytes(text.encode())
    gold = folder / "test.gold"
    truth = parse_links(str(gold), read_lines(str(gold)))
    links = fit_joint(read_bitext(str(tmp_path / "src"), str(tmp_path / "tgt"))).fitted_links
    first = Links(links.pairs[: links.offsets[len(truth)]], links.offsets[: len(truth) + 1])
    return evaluate(truth, first).aer


@pytest.mark.parametrize("name", GOALS)
def test_it_is_a_point_better_than_any_peer(name, tmp_path):
    assert aer(name, tmp_path) <= GOALS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_it_is_a_point_better_than_any_peer_on_larger_text(name, tmp_path):
    assert aer(name, tmp_path) <= SLOW[name]
