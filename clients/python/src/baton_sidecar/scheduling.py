"""For schedulers that every replica runs, such as APScheduler: what they call acts where the replica leads."""

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ._baton import Baton
from ._errors import Lost
from ._held import Held
from ._sources import Scope
from .aio import cancelled_when_over

__all__ = ["Leader"]

Call = TypeVar("Call", bound=Callable[..., Any])
# How often to look whether it has been stopped.
LOOK_S = 0.5


class Leader:
    """Leads a role again and again, in a thread of its own, from its beginning until `stop`.

    Example:
        leader = Leader("scheduler")
        scheduler = BackgroundScheduler()

        @scheduler.scheduled_job("interval", seconds=1)
        @leader.only
        def report():
            write(leader.token)
    """

    def __init__(
        self, role: str, baton: Baton | None = None, *, scope: Scope = "pod", margin: float | None = None
    ) -> None:
        """As `Baton.leading`; the sidecar is found as by `Baton()` if none is given."""
        self._role, self._baton = role, baton or Baton()
        self._scope, self._margin = scope, margin
        self._changed = threading.Condition()
        self._lead: Held | None = None
        self._working = 0
        self._is_stopped = False
        self.error: Exception | None = None
        """Why it leads no more, though it was not stopped: the sidecar does not know the role, say."""
        self._thread = threading.Thread(target=self._run, name=f"baton leads {role}", daemon=True)
        self._thread.start()

    @property
    def token(self) -> int:
        """The fencing token, for what runs under `only`.

        Raises:
            Lost: This replica does not lead, or not any more.
        """
        with self._changed:
            lead = self._lead
        if lead is None:
            raise Lost("this replica does not lead")
        return lead.token

    def only(self, call: Call) -> Call:
        """Calls this while the replica leads; otherwise nothing is done, and None returned.

        The lead is not given up before all that was begun has returned. A coroutine is cancelled when the lead is over.
        """
        if inspect.iscoroutinefunction(call):

            @functools.wraps(call)
            async def run_async(*args: Any, **named: Any) -> Any:
                with self.acting() as lead:
                    if lead is not None:
                        with cancelled_when_over(lead._claim):
                            return await call(*args, **named)
                return None

            return run_async  # type: ignore[return-value]

        @functools.wraps(call)
        def run(*args: Any, **named: Any) -> Any:
            with self.acting() as lead:
                return None if lead is None else call(*args, **named)

        return run  # type: ignore[return-value]

    @contextlib.contextmanager
    def acting(self) -> Iterator[Held | None]:
        """The lead, which is not given up before the block has ended; None where this replica does not lead."""
        with self._changed:
            lead = self._lead or None
            if lead is not None:
                self._working += 1
        try:
            yield lead
        finally:
            if lead is not None:
                with self._changed:
                    self._working -= 1
                    self._changed.notify_all()

    def stop(self) -> None:
        """Leads no more. What has been begun is waited for; then another replica leads."""
        self._is_stopped = True
        if self._lead is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                with self._baton.leading(self._role, scope=self._scope, margin=self._margin) as lead:
                    self._lead_until_over(lead)
            except Exception as error:
                self.error = error
                return

    def _lead_until_over(self, lead: Held) -> None:
        with self._changed:
            self._lead = lead
        while not self._is_stopped and not lead.wait(LOOK_S):
            pass
        with self._changed:
            self._lead = None
            self._changed.wait_for(lambda: self._working == 0)
