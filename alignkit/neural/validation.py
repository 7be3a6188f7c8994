"""Checks of the values of settings: each raises an AlignkitError that names the owner, the field and the value."""

from __future__ import annotations

from collections.abc import Collection

from alignkit.errors import AlignkitError
from alignkit.records import shown

LIMIT = 1 << 24  #: no size in a settings file may be larger: a damaged file must not ask for terabytes


def check_sizes(owner: str, **values: int) -> None:
    """Each value is a whole number from 1 to :data:`LIMIT`."""
    for name, value in values.items():
        if type(value) is not int or not 1 <= value <= LIMIT:
            raise AlignkitError(f"{owner}: {name} must be a whole number from 1 to {LIMIT}, not {shown(value)}")


def check_not_negative(owner: str, **values: int) -> None:
    """Each value is a whole number of at least 0."""
    for name, value in values.items():
        if type(value) is not int or value < 0:
            raise AlignkitError(f"{owner}: {name} must be a whole number of at least 0, not {shown(value)}")


def check_seed(owner: str, seed: int) -> None:
    """The seed is a whole number from 0 to 2^63 - 1."""
    if type(seed) is not int or not 0 <= seed < 1 << 63:
        raise AlignkitError(f"{owner}: seed must be a whole number of at least 0, not {shown(seed)}")


def check_share(owner: str, **values: float) -> None:
    """Each value lies in [0, 1)."""
    for name, value in values.items():
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise AlignkitError(f"{owner}: {name} must lie in [0, 1), not {shown(value)}")


def check_factors(owner: str, **values: float) -> None:
    """Each value lies in [0, 1000]."""
    for name, value in values.items():
        if not isinstance(value, (int, float)) or not 0 <= value <= 1000:
            raise AlignkitError(f"{owner}: {name} must be a number from 0 to 1000, not {shown(value)}")


def check_learning_rate(owner: str, learning_rate: float) -> None:
    """The learning rate is positive, and not so large that float32 has no such number."""
    if type(learning_rate) not in (int, float) or not 0 < learning_rate < 1e38:
        raise AlignkitError(f"{owner}: learning_rate must be a positive number, not {shown(learning_rate)}")


def check_flag(owner: str, **values: bool) -> None:
    """Each value is True or False."""
    for name, value in values.items():
        if type(value) is not bool:
            raise AlignkitError(f"{owner}: {name} must be true or false")


def check_choice(owner: str, name: str, value: object, choices: Collection[str]) -> None:
    """The value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise AlignkitError(f"{owner}: {name} must be one of {', '.join(choices)}, not {shown(value)}")
