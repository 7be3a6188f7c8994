"""One file per experiment, each a plain function that returns a table."""
