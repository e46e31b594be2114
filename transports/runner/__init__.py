"""Processes and who they are. Imports no actors: it is to run alone."""

from transports.runner.identity import Fate, ProcessIdentity

__all__ = ["Fate", "ProcessIdentity"]
