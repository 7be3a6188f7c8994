"""What serves every part of the program: files, settings, arrays, threads, stages, packages."""
