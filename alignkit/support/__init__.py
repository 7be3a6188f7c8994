"""What serves every part of the program: files, records, threads, stages, packages."""
