"""Arrays in files without a name."""

from __future__ import annotations

import os

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.text import on_disk
from alignkit.text.on_disk import release, scratch_array


def test_arrays_on_disk(tmp_path):
    found = scratch_array(100_000, np.int32, str(tmp_path))
    assert not found.any()
    found[:] = np.arange(100_000)
    assert not any(tmp_path.iterdir())  # the file has no name
    release(found, found[10:20], np.arange(3))
    assert np.array_equal(found, np.arange(100_000))
    assert len(scratch_array(0, np.int64, None)) == 0


def test_errors_of_the_folder(tmp_path):
    with pytest.raises(AlignkitError, match=r"temporary files in .*nowhere"):
        scratch_array(10, np.int32, str(tmp_path / "nowhere"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(monkeypatch):
    monkeypatch.setattr(on_disk.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(AlignkitError, match="cannot write temporary files in there"):
        scratch_array(1 << 20, np.int32, "there")
