from typing import Any


class BatonError(Exception):
    """What any call of this package raises for the sidecar's sake."""


class Unreachable(BatonError):
    """There is no sidecar at the address, or it does not answer in time."""


class Refused(BatonError):
    """The sidecar refuses a request."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        """The status of HTTP."""
        self.type: str = str(problem.get("type", "about:blank")).removeprefix("urn:baton:problem:")
        """What it is, for programs: `unknown-role`."""
        self.detail: str = str(problem.get("detail", ""))
        """What it is, for people."""
        super().__init__(f"{status} {self.type}: {self.detail}")


class LockHeld(Refused):
    """Another holds the lock, and the time to wait is over."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(status, problem)
        self.holder: dict[str, Any] | None = problem.get("holder")
        """Who holds it, as far as that is known: `owner`, `identity`, `token`, `ends_in_ms`."""


class Lost(BatonError):
    """A lead or a lock is over: nothing may be done in its name any more."""

    def __init__(self, reason: str, of: object = None) -> None:
        super().__init__(reason)
        self._of = of
