"""Beside the core: several stores as one, a language model's steps, tuning, copies of a release."""
