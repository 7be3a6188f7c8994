import pytest

from alignkit.text.pairs import read_training_pairs


@pytest.mark.parametrize(("count", "held", "said"), [(39, 1, "1 pair at"), (40, 2, "2 pairs at")])
def test_one_pair_in_twenty_at_the_end_is_held_out(tmp_path, caplog, count, held, said):
    (tmp_path / "text").write_text("".join(f"a{m} ||| b{m}\n" for m in range(count)))
    with caplog.at_level("INFO", "alignkit"):
        training, validation = read_training_pairs((tmp_path / "text", None), None)
    assert validation.source == [f"a{m}" for m in range(count - held, count)]
    assert len(training.source) == count - held
    assert f"no validation text: {said} the end held out as one" in caplog.text
