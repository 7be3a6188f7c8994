"""``alignkit diagonal``."""

from __future__ import annotations

from typing import Any

from alignkit.classical.settings import DiagonalSettings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import direction_options, estimation_options, fit_and_write, result_options, text_options


@alignkit_command("diagonal", "alignkit diagonal corpus.de corpus.en --symmetrize gdfa -o links")
@text_options
@estimation_options(DiagonalSettings())
@direction_options
@result_options
def command(**options: Any) -> None:
    """Align a text with fast_align's model, fitted on it.

    IBM Model 2 whose positions favour the diagonal of the sentence pair (Dyer, Chahuneau and Smith 2013). A
    fast_align run with -I n makes n - 1 iterations as counted here.

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    fit_and_write("diagonal", DiagonalSettings(), options)
