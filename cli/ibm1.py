"""``alignkit ibm1``."""

from __future__ import annotations

from typing import Any

from alignkit.classical.settings import IBM1Settings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    direction_options,
    estimation_options,
    fit_and_write,
    knowledge_options,
    result_options,
    text_options,
)


@alignkit_command("ibm1", "alignkit ibm1 corpus.de corpus.en --symmetrize gdfa -o links")
@text_options
@estimation_options(IBM1Settings())
@knowledge_options
@direction_options
@result_options
def command(**options: Any) -> None:
    """Align a text with IBM Model 1, fitted on it.

    All source positions are equally likely (Brown et al. 1993).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    fit_and_write("ibm1", IBM1Settings(), options)
