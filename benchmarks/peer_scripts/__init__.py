"""One script for each tool that `benchmarks.peers` compares, run by the tool's own environment."""
