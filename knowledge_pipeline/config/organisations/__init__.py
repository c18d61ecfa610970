"""Organisations: one entry of `knowledge.yaml` for all the repositories, spaces or channels of a service."""
