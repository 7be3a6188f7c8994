"""Alignments to files: whole or not at all."""

from __future__ import annotations

import pytest
from planted import bitext_of, random_pairs

from alignkit.errors import AlignkitError
from alignkit.workflow.align import align
from alignkit.workflow.writing import AlignmentWriter


def test_nothing_is_left_if_the_second_file_cannot_be_opened(tmp_path):
    writer = AlignmentWriter(tmp_path / "out", sentence_scores=tmp_path / "absent" / "scores")
    with pytest.raises(AlignkitError, match="absent"), writer:
        pass
    assert list(tmp_path.iterdir()) == []  # while the writer is still there
    (tmp_path / "absent").mkdir()
    with writer:
        pass
    assert (tmp_path / "out").exists()
    assert (tmp_path / "absent" / "scores").exists()


def test_both_files_are_written_at_the_end(tmp_path):
    aligned = align(bitext_of(random_pairs(1, pairs=10)), method="ibm1")
    with AlignmentWriter(tmp_path / "out", sentence_scores=tmp_path / "scores") as writer:
        for alignment in aligned.alignments(**writer.wanted):
            writer.write(alignment)
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").read_bytes() == aligned.links.to_pharaoh()
    assert len((tmp_path / "scores").read_text().splitlines()) == len(aligned)
