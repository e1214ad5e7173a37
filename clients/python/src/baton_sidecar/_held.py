from collections.abc import Callable

from ._claim import Claim


class Held:
    """A lead, or a lock. False once it is over, which it is `margin` before what the sidecar has promised runs out."""

    def __init__(self, name: str, claim: Claim) -> None:
        self.name = name
        """The role's, or the lock's."""
        self._claim = claim

    @property
    def token(self) -> int:
        """The fencing token. Read it each time that something is written with it: reading it is the check.

        Raises:
            Lost: it is over.
        """
        return self._claim.token

    def left(self) -> float:
        """Seconds until it is over, if no more are promised; 0 when it is."""
        return self._claim.left()

    def __bool__(self) -> bool:
        return self._claim.left() > 0

    def wait(self, seconds: float | None = None) -> bool:
        """Sleeps for so many seconds (None: without end), or until it is over. Whether it is over.

        It blocks its thread: with asyncio, the task is cancelled instead.
        """
        return self._claim.wait(seconds)

    def when_over(self, call: Callable[[], object]) -> None:
        """Has this called once when it is over, in a thread of this package: to end work that cannot look by itself."""
        self._claim.when_over(call)

    def __repr__(self) -> str:
        return f"<{self.name!r}, {f'{self.left():.3f} s left' if self else 'over'}>"
