"""Hidden Markov aligners: settings, estimation, inference, one direction and two."""
