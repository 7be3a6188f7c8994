"""Attributions of inseq: a file that inseq 0.7.1 wrote, and files of its form."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from alignkit.errors import InputError
from alignkit.lab.interop.heads import HeadChoice
from alignkit.lab.interop.other_systems import read_heads, read_scores

#: The attention of a small untrained Marian model for "ein Mann" and "man", saved by inseq.
SAVED = Path(__file__).parent / "inseq-0.7.1.json"
#: Of layer 1, head 0, as inseq itself shows it.
SHOWN = [[0.200771, 0.200167, 0.199657, 0.199546, 0.199858], [0.199932, 0.199446, 0.199708, 0.200263, 0.200651]]


def test_a_file_of_inseq():
    heads = read_heads(SAVED)
    assert heads.heads == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert np.allclose(heads.scores(HeadChoice(1, 0))[0], SHOWN, atol=1e-6)
    # ▁ein | ▁ M ann | </s> and ▁man | </s>
    words = heads.word_scores(HeadChoice(1, 0))[0]
    assert np.allclose(words, [[SHOWN[0][0], sum(SHOWN[0][1:4])]], atol=1e-5)


def tensor(values, kind="F32"):
    data = np.asarray(values).astype({"F64": "<f8", "F32": "<f4", "F16": "<f2", "F8_E4M3": "u1"}[kind]).tobytes()
    header = {"attribution": {"dtype": kind, "shape": list(np.shape(values)), "data_offsets": [0, len(data)]}}
    text = json.dumps(header).encode()
    return base64.b64encode(len(text).to_bytes(8, "little") + text + data).decode()


def sequence(values, kind="F32", **changes):
    tokens = {"source": ["▁a", "b", "▁c"], "target": ["<pad>", "▁x", "▁y"]}
    wrapped = {side: [{"attributes": {"id": 1, "token": x}} for x in each] for side, each in tokens.items()}
    fields = {**wrapped, "attr_pos_start": 1, "attr_pos_end": 3, "source_attributions": tensor(values, kind)}
    return {"attributes": {**fields, **changes}}


def saved(path, *sequences):
    text = json.dumps({"attributes": {"sequence_attributions": list(sequences)}}, indent=4)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


FLAT = np.array([[0.5, 0.25], [0.25, 0.5], [0.125, 0.75]])  # source by target


@pytest.mark.parametrize(("name", "kind"), [("a.json", "F32"), ("a.json.gz", "F16")])
def test_attributions_that_are_summed_up(tmp_path, name, kind):
    found = read_scores(saved(tmp_path / name, sequence(FLAT, kind)))
    assert np.array_equal(found.scores[0], FLAT.T)
    assert found.source == (("▁a", "b", "▁c"),)
    assert found.target == (("▁x", "▁y"),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": FLAT[..., None]}, "3 dimensions.*out.aggregate"),
        ({"values": FLAT[:2]}, "for 3 source and 2 target tokens"),
        ({"values": FLAT * np.nan}, "not a finite number"),
        ({"values": FLAT * np.inf}, "not a finite number"),
        ({"values": FLAT * 1e300, "kind": "F64"}, "not a finite number"),
        ({"values": FLAT, "attr_pos_start": float("inf")}, "can be read"),
        ({"values": FLAT, "attr_pos_end": "3"}, "can be read"),
        ({"values": FLAT, "kind": "F8_E4M3"}, "scores_precision"),
        ({"values": FLAT, "source_attributions": None}, "target tokens only"),
        ({"values": FLAT, "source_attributions": "x"}, "can be read"),
        ({"values": FLAT, "source_attributions": tensor(FLAT)[:-8]}, "can be read"),
        ({"values": FLAT, "source": [3]}, "can be read"),
    ],
)
def test_what_cannot_be_read(tmp_path, change, message):
    with pytest.raises(InputError, match=message) as error:
        read_scores(saved(tmp_path / "a.json", sequence(**change)))
    assert "\n" not in str(error.value)


def test_a_mixture_is_refused(tmp_path):
    with pytest.raises(InputError, match="some attributions have layers and heads"):
        read_heads(saved(tmp_path / "a.json", sequence(FLAT), sequence(FLAT[..., None, None])))
