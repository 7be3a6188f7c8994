"""Many small networks trained at once."""
