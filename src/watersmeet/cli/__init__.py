"""THE COMMAND LINE: a demonstration and the benchmarks. Nothing below this folder knows of it."""
