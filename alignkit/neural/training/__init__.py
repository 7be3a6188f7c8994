"""Training of networks, and run directories."""
