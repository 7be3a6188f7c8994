"""Does attention explain a classifier's decisions? The tests of that debate, as tables with intervals."""
