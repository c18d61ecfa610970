"""Alerts of failed runs: the sensor, and the channels that carry them."""
