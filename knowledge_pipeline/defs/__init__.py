"""Dagster: partitions, resources, assets, jobs, sensors; the work itself is in `stages`."""
