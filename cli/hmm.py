"""``alignkit hmm``."""

from __future__ import annotations

from typing import Any

from alignkit.classical.hmm.settings import HMMSettings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    direction_options,
    estimation_options,
    fit_and_write,
    knowledge_options,
    result_options,
    text_options,
)


@alignkit_command("hmm", "alignkit hmm corpus.de corpus.en --symmetrize gdfa -o links")
@text_options
@estimation_options(HMMSettings())
@knowledge_options
@direction_options
@result_options
def command(**options: Any) -> None:
    """Align a text with a hidden Markov model, fitted on it.

    The source position of a word depends on that of the word before (Vogel, Ney and Tillmann 1996).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    fit_and_write("hmm", HMMSettings(), options)
