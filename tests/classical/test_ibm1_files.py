"""Saved IBM Model 1: the same bytes at any number of threads, read back as they were, refused where damaged."""

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.ibm1 import IBM1, KIND, VERSION, fit_ibm1, load_ibm1
from alignkit.errors import InputError
from alignkit.support.files import load_arrays, save_arrays

BOTH = pytest.mark.parametrize("null", [False, True])


@BOTH
def test_threads_do_not_change_a_bit(tmp_path, null):
    """1, 2, 3 and 8 threads; a word in every sentence makes blocks uneven."""
    pairs = [(["der", *x], ["the", *y]) for x, y in random_pairs(8, pairs=300, source_types=80, target_types=90)]
    bitext, new = bitext_of(pairs), bitext_of(random_pairs(9, source_types=100))
    outcomes = []
    for threads in (1, 2, 3, 8):
        model = fit_ibm1(bitext, iterations=4, null=null, threads=threads)
        assert model.threads == threads
        path = tmp_path / f"{threads}.npz"
        model.save(path)
        outcome = [path.read_bytes()]
        for text in (bitext, new):
            outcome += [model.links(text).to_pharaoh()]
            outcome += [model.score(text, kind).values.tobytes() for kind in model.kinds]
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1] == outcomes[2] == outcomes[3]


@BOTH
def test_save_and_load(tmp_path, messy_bitext, null):
    model = fit_ibm1(messy_bitext, iterations=3, null=null)
    model.save(tmp_path / "x.npz")
    loaded = load_ibm1(tmp_path / "x.npz")
    assert loaded.table.to_dense().tolist() == model.table.to_dense().tolist()
    assert loaded.log_likelihood == model.log_likelihood
    assert (loaded.null is None) == (not null)
    assert loaded.null is None or loaded.null.tolist() == model.null.tolist()
    assert loaded.source == model.source
    loaded.save(tmp_path / "y.npz")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


def test_load_refuses_arrays_that_do_not_fit(tmp_path, messy_bitext):
    path = tmp_path / "x.npz"
    fit_ibm1(messy_bitext, iterations=1).save(path)
    arrays, header = load_arrays(path, KIND, VERSION)
    wild = arrays["offsets"].copy()
    wild[1:3] = (2**63 - 1, -2)
    wrong = [
        ("columns", arrays["columns"] + np.int32(1000)),
        ("columns", arrays["columns"].astype(np.int64)),
        ("values", arrays["values"][:-1]),
        ("offsets", arrays["offsets"][:-1]),
        ("offsets", wild),
        ("null", arrays["null"][:-1]),
        ("null", arrays["null"].astype(np.float64)),
        ("source_type_offsets", arrays["source_type_offsets"][:-1]),
        ("target_types", arrays["target_types"][:3]),
    ]
    for name, array in wrong:
        save_arrays(path, KIND, VERSION, {**arrays, name: array}, header)
        with pytest.raises(InputError, match="damaged"):
            load_ibm1(path)
    for probability in (0, 1.5, "x", [0.1]):
        save_arrays(path, KIND, VERSION, arrays, {"log_likelihood": [], "null_probability": probability})
        with pytest.raises(InputError, match="damaged"):
            load_ibm1(path)
    for likelihood in (1, [[1]], ["x"], None):
        save_arrays(path, KIND, VERSION, arrays, {"log_likelihood": likelihood})
        with pytest.raises(InputError, match="damaged"):
            load_ibm1(path)


def test_a_model_refuses_parts_that_do_not_fit(messy_bitext):
    model = fit_ibm1(messy_bitext, iterations=1)
    with pytest.raises(ValueError, match="does not fit the vocabularies"):
        IBM1(model.target, model.source, model.table, null=model.null)
    with pytest.raises(ValueError, match="null must be"):
        IBM1(model.source, model.target, model.table, null=model.null[:-1])
