"""Lists of heads, as other programs read them."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from alignkit.errors import InputError
from alignkit.lab.heads.exports import export_heads
from alignkit.lab.heads.ranking import HeadRanking


@pytest.fixture
def ranking():
    rows = [(3, 1, 0, 0.75, 30), (3, 1, 1, 0.5, 20), (0, 2, 1, 0.25, 10), (0, 2, 0, 0.1, 4)]
    table = pd.DataFrame(rows, columns=["layer", "head", "shift", "hits", "count"])
    made = {"model": "org/name", "source_language": "deu_Latn", "target_language": "eng_Latn"}
    return HeadRanking(table, table, 40, {}, [(3, 1), (np.int64(0), 2)], {}, {}, 7, made)


def test_alignatt_has_every_head_that_is_not_shifted(ranking, tmp_path):
    export_heads(ranking, "alignatt", tmp_path / "heads.json")
    assert json.loads((tmp_path / "heads.json").read_text()) == {
        "model": "org/name",
        "direction": "deu_Latn-eng_Latn",
        "num_heads": 3,
        "used_pairs": 7,
        "token_alignment_heads": [
            {"layer": 3, "head": 1, "ts": 0.75, "count": 30},
            {"layer": 0, "head": 2, "ts": 0.1, "count": 4},
        ],
    }


def test_llama_cpp_gets_two_arrays_of_one_length(ranking, tmp_path):
    export_heads(ranking, "llama.cpp", tmp_path / "heads.h")
    text = (tmp_path / "heads.h").read_text()
    arrays = {name: json.loads(f"[{values}]") for name, values in re.findall(r"attn_(\w+)\[\] = {(.*?)};", text)}
    assert arrays == {"layers": [3, 0], "heads": [1, 2]}
    assert "attn_n = 2;" in text


@pytest.mark.parametrize("form", ["ctranslate2", "huggingface"])
def test_other_entries_of_a_configuration_stay(ranking, tmp_path, form):
    path = tmp_path / "config.json"
    export_heads(ranking, form, path)
    assert json.loads(path.read_text()) == {"alignment_heads": [[3, 1], [0, 2]]}
    path.write_text(json.dumps({"lang_ids": [3], "alignment_heads": [[0, 0]]}))
    export_heads(ranking, form, path)
    assert json.loads(path.read_text()) == {"lang_ids": [3], "alignment_heads": [[3, 1], [0, 2]]}
    for text in ("[1]", "x"):
        path.write_text(text)
        with pytest.raises(InputError, match="not"):
            export_heads(ranking, form, path)
        assert path.read_text() == text


def test_transformers_reads_them(ranking, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is an optional library")
    transformers.GenerationConfig(num_beams=3).save_pretrained(tmp_path)
    export_heads(ranking, "huggingface", tmp_path / "generation_config.json")
    found = transformers.GenerationConfig.from_pretrained(tmp_path)
    assert (found.alignment_heads, found.num_beams) == ([[3, 1], [0, 2]], 3)
