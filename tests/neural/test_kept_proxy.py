"""The proxy that is kept beside the runs of its text."""

from __future__ import annotations


def test_a_kept_proxy_of_other_words_is_not_taken(tmp_path):
    """As a folder of `classify` can hold one from before its runs were deleted: ids would be other words."""
    from alignkit.neural.proxy import proxy_of
    from alignkit.neural.settings import ProxySettings
    from alignkit.text.bitext import Bitext

    settings = ProxySettings(embedding=4, epochs=1)
    texts = [Bitext.from_sentences([word.split() for word in side], [["x"], ["y"]]) for side in ("ab", "cd")]
    kept = [proxy_of(tmp_path, text, text, settings, device="cpu") for text in texts]
    assert [list(one.source.tokens) for one in kept] == [["a", "b"], ["c", "d"]]
    told: list[str] = []
    proxy_of(tmp_path, texts[1], texts[1], settings, lambda *said: told.append(said[2]), "cpu")
    assert not told  # of the same words it is
