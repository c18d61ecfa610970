"""What stands beside the core: tuning of the ranking, copies of a release."""
