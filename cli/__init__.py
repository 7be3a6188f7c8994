"""The command line: commands parse, make one library call and print; defaults live in the library."""
