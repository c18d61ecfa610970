"""Checks of what the stages wrote: the blocking ones that guard a release, and the informing ones."""
