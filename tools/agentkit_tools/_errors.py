"""The one error that the tools of these servers raise on purpose."""

from __future__ import annotations


class Refused(Exception):
    """The request cannot be served. The message tells a model what to do instead."""
