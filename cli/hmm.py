"""``alignkit hmm``."""

from alignkit_cli.fitting import fit_command

command = fit_command(
    "hmm",
    "Align a text with a hidden Markov model, fitted on it.\n\n"
    "The source position of a word depends on that of the word before (Vogel, Ney and Tillmann 1996).",
)
