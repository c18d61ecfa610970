"""Runs: requests, executors, pools, progress, and what a run records."""
