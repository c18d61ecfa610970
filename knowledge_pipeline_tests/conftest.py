"""Fixtures that many tests share."""

from __future__ import annotations
