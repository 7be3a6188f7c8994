"""``alignkit ibm1``."""

from alignkit_cli.fitting import fit_command

command = fit_command(
    "ibm1",
    "Align a text with IBM Model 1, fitted on it.\n\nAll source positions are equally likely (Brown et al. 1993).",
)
