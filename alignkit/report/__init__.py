"""Tables to text, CSV and JSON."""
