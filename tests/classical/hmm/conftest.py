"""What tests of long pairs share."""

import pytest

from alignkit.classical.hmm import views


@pytest.fixture
def small_windows(monkeypatch):
    """Pairs are long from 512 by 512 words on, a quarter of the usual length, and cut into as many windows."""
    monkeypatch.setattr(views, "LARGEST_PAIR", views.LARGEST_PAIR >> 4)
    monkeypatch.setattr(views, "WINDOW", views.WINDOW >> 4)
