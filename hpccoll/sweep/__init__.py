"""Sweeps: many benchmarks from one file, run one by one or as a job array, and nothing lost."""
