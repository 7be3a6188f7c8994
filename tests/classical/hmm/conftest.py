"""What tests of long pairs share."""

import pytest

from alignkit.classical.hmm import views


@pytest.fixture
def small_windows(monkeypatch):
    """Pairs are long from 256 by 256 words on, an eighth of the usual length, and cut into as many windows."""
    monkeypatch.setattr(views, "LARGEST_PAIR", views.LARGEST_PAIR >> 6)
    monkeypatch.setattr(views, "WINDOW", views.WINDOW >> 6)
