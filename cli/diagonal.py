"""``alignkit diagonal``."""

from alignkit_cli.fitting import fit_command

command = fit_command(
    "diagonal",
    "Align a text with fast_align's model, fitted on it.\n\n"
    "This is IBM Model 2 with positions that favour the diagonal of the sentence pair (Dyer, Chahuneau and Smith "
    "2013). A fast_align run with -I n makes n - 1 iterations as counted here.",
)
