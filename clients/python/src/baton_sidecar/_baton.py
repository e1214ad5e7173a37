import contextlib
import os
from collections.abc import Callable, Iterator

from . import _clock
from ._claim import Source
from ._errors import Lost
from ._held import Held
from ._http import Endpoint
from ._sources import Lock, Role, Scope
from ._waiting import Waiting


class Sidecar:
    """Where the sidecar is, and what may be asked of it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token_file: str | os.PathLike[str] | None = None,
        _now: Callable[[], float] = _clock.now,
    ) -> None:
        """Asks nothing yet.

        Args:
            url: The sidecar's address; else that of the variable `BATON_URL`, else `http://127.0.0.1:4040`.
            token_file: A file with the token that the sidecar wants; else that of `BATON_TOKEN_FILE`, else none.
        """
        self._endpoint, self._now = Endpoint(url, token_file), _now

    def _waiting_for_lead(self, role: str, scope: Scope, margin: float | None) -> Waiting:
        return self._waiting(Role(self._endpoint, role, scope), margin)

    def _waiting_for_lock(
        self,
        name: str,
        wait: float,
        owner: str | None,
        lease: float | None,
        fair: bool,
        permits: int | None,
        margin: float | None,
    ) -> Waiting:
        return self._waiting(Lock(self._endpoint, name, wait, owner, lease, fair, permits), margin)

    def _waiting(self, source: Source, margin: float | None) -> Waiting:
        return Waiting(source, self._now, margin)


class Baton(Sidecar):
    """The sidecar of this pod, for threads. May be used by many at once."""

    @contextlib.contextmanager
    def leading(self, role: str, *, scope: Scope = "pod", margin: float | None = None) -> Iterator[Held]:
        """Waits until this replica leads; when the block has ended, tells the sidecar that the work has stopped.

        Example:
            with Baton().leading("scheduler") as lead:
                while not lead.wait(1):
                    work(lead.token)

        Work that finds by the token that the lead is over is ended by that, without an error: `Lost` ends the block.

        Args:
            role: A role of the sidecar's configuration.
            scope: "process" if no child of this process, and no program that it starts, acts upon the lead: then a
                handover waits for nothing when this process is killed.
            margin: Seconds before the end of what is promised at which the lead is over: the longest that a step takes.
                A tenth of what is promised at once, and at least 0.02, if it is not given.

        Raises:
            Refused: There is no such role, or the sidecar does not let this app in.
        """
        with _held(role, self._waiting_for_lead(role, scope, margin)) as held:
            yield held

    @contextlib.contextmanager
    def lock(
        self,
        name: str,
        *,
        wait: float = 0.0,
        owner: str | None = None,
        lease: float | None = None,
        fair: bool = False,
        permits: int | None = None,
        margin: float | None = None,
    ) -> Iterator[Held]:
        """Takes a lock, and gives it back when the block has ended, or this process has.

        Example:
            with Baton().lock("orders", wait=5) as lock:
                work(lock.token)

        Args:
            name: Any text of 1 to 200 bytes.
            wait: Seconds to wait for it; `math.inf` for as long as it takes.
            owner: Who takes it. The same owner may take it again; nobody is the same as nobody.
            lease: Seconds that it lasts when the sidecar has died; `locks.lease` of its configuration if not given.
            fair: First come, first served.
            permits: So many may hold it at once. All say the same number.
            margin: As of `leading`.

        Raises:
            LockHeld: Another holds it, and the wait is over.
            Refused: The sidecar cannot grant it now, or does not let this app in.
            Unreachable: There is no sidecar.
        """
        with _held(name, self._waiting_for_lock(name, wait, owner, lease, fair, permits, margin)) as held:
            yield held


@contextlib.contextmanager
def _held(name: str, waiting: Waiting) -> Iterator[Held]:
    claim = waiting.claim()
    try:
        yield Held(name, claim)
    except Lost as lost:
        if lost._of is not claim:
            raise
    finally:
        claim.leave()
