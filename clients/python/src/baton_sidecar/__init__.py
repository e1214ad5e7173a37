"""Leads, locks and jobs of the Baton sidecar: scopes that end before their validity does. For asyncio: `aio`."""

from ._baton import Baton
from ._errors import BatonError, LockHeld, Lost, Refused, Unreachable
from ._held import Held
from ._jobs import JobHandler, JobRun

__all__ = ["Baton", "BatonError", "Held", "JobHandler", "JobRun", "LockHeld", "Lost", "Refused", "Unreachable"]
