"""Checks of what the stages wrote: blocking ones, which guard a release, and informational ones."""
