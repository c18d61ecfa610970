"""Speed, memory and disk, measured side by side in one run; never timed tests."""
