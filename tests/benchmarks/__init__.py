"""Benchmark what this plugin and its peers add to a pytest run: ``python -m tests.benchmarks``."""
