"""What a lead and a lock have in common: a token, until when it may be used, and who sees to it that it is not longer.

Three threads work for a claim: one listens to its connection, one asks for more time, and one waits for its end, which
the other two might miss while they wait for the sidecar.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ._errors import BatonError, Lost, Unreachable
from ._http import Connection, Response

MARGIN_MIN_S = 0.02
# How often to look at the clock: a wait does not notice that the machine has slept.
LOOK_S = 0.5
# How long the word that the work has stopped may take.
LEAVE_S = 1.0


@dataclass(frozen=True)
class Opened:
    """A connection on which something was granted."""

    connection: Connection
    lines: Response
    name: str
    token: int
    validity: float
    """About how many seconds answers are good for. Nothing is counted by this."""


@dataclass(frozen=True)
class Answer:
    """What came of asking for more time: so many seconds from before it was asked, or the reason why it is lost."""

    valid_for: float = 0.0
    lost: str | None = None


class Source(Protocol):
    """Where claims come from: a role, or a lock."""

    def open(self, waits_on: Callable[[Connection], None]) -> Opened:
        """Waits for a claim. `waits_on` is told each connection that it waits on, so that the wait can be ended."""

    def lost_by(self, line: dict[str, Any], opened: Opened) -> str | None:
        """Why the claim is lost, if this line says so."""

    def ask(self, connection: Connection, opened: Opened, timeout: float) -> Answer | None:
        """Asks for more time. None: that was no clear answer."""

    def connect(self) -> Connection: ...

    def leave(self, connection: Connection, opened: Opened) -> None:
        """Says that the work has stopped."""


class Claim:
    """Something that is held for as long as the sidecar promises, less a margin."""

    def __init__(self, source: Source, opened: Opened, clock: Callable[[], float], margin: float | None) -> None:
        self._source, self._opened, self._clock, self._margin = source, opened, clock, margin
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._reason: str | None = None
        self._when_over: list[Callable[[], object]] = []
        _claims.add(self)
        for work in (self._listen, self._ask, self._watch):
            threading.Thread(target=work, name=f"baton {opened.name} {work.__name__}", daemon=True).start()

    def begins(self) -> bool:
        """Waits until it may be used for the first time. False: it was lost before."""
        with self._changed:
            while self._deadline is None and self._reason is None:
                self._changed.wait()
            return self._reason is None

    @property
    def token(self) -> int:
        with self._changed:
            if (reason := self._over()) is not None:
                raise Lost(reason, self)
            return self._opened.token

    def left(self) -> float:
        """Seconds until it is over; 0 when it is."""
        with self._changed:
            return 0.0 if self._deadline is None or self._over() is not None else self._deadline - self._clock()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is over, for so many seconds at the most. Whether it is."""
        ends = None if seconds is None else self._clock() + seconds
        while (left := self.left()) > 0:
            rest = left if ends is None else min(left, ends - self._clock())
            if rest <= 0:
                return False
            with self._changed:
                if self._over() is None:
                    self._changed.wait(min(rest, LOOK_S))
        return True

    def when_over(self, call: Callable[[], object]) -> None:
        """Calls this once when it is over, in whichever thread finds out."""
        with self._changed:
            if self._reason is None:
                self._when_over.append(call)
                return
        call()

    def end(self, reason: str) -> None:
        with self._changed:
            if self._reason is not None:
                return
            self._reason = self._over() or reason
            calls, self._when_over = self._when_over, []
            self._changed.notify_all()
        for call in calls:
            call()

    def leave(self) -> None:
        """The work has stopped: says so, and closes the connection."""
        self.end("its scope was left")
        # If nobody hears, it ends by its lease, or by its connection, which is closed.
        with contextlib.suppress(Unreachable):
            connection = self._source.connect()
            try:
                self._source.leave(connection, self._opened)
            finally:
                connection.close()
        self.close()

    def close(self) -> None:
        self.end("its connection was closed")
        self._opened.connection.interrupt()

    def _over(self) -> str | None:
        # Under the lock. What has run out is over at once, whoever notices it later.
        if self._reason is None and self._deadline is not None and self._clock() >= self._deadline:
            return "what the sidecar promised has run out"
        return self._reason

    def _extend(self, asked_at: float, valid_for: float) -> None:
        margin = max(MARGIN_MIN_S, valid_for / 10) if self._margin is None else self._margin
        with self._changed:
            deadline = asked_at + valid_for - margin
            if self._over() is None and self._clock() < deadline:
                self._deadline = max(deadline, self._deadline or 0.0)
                self._changed.notify_all()

    def _listen(self) -> None:
        while (line := self._opened.lines.line()) is not None:
            if (reason := self._source.lost_by(line, self._opened)) is not None:
                self.end(reason)
        self.end("the connection to the sidecar has ended")
        self._opened.connection.close()

    def _ask(self) -> None:
        connection = None
        validity, pause = self._opened.validity, 0.0
        while not self._is_over_after(pause):
            asked_at = self._clock()
            answer = None
            try:
                connection = connection or self._source.connect()
                answer = self._source.ask(connection, self._opened, between(0.05, validity / 3, 2.0))
            except BatonError:
                pass
            if answer is None:
                if connection is not None:
                    connection.close()
                connection = None
                pause = between(0.01, validity / 10, 0.1)
            elif answer.lost is not None:
                self.end(answer.lost)
            else:
                validity = answer.valid_for
                self._extend(asked_at, validity)
                pause = max(0.01, asked_at + validity / 3 - self._clock())
        if connection is not None:
            connection.close()

    def _watch(self) -> None:
        if self.begins():
            self.wait()
            self.end("what the sidecar promised has run out")

    def _is_over_after(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._reason is not None, seconds)


def between(least: float, value: float, most: float) -> float:
    return max(least, min(value, most))


_claims: weakref.WeakSet[Claim] = weakref.WeakSet()


def _disown() -> None:
    # None of its threads is here, and its lock may be held by one of them.
    for claim in list(_claims):
        claim._changed = threading.Condition()
        claim.end("it belongs to the process that this one was forked from")


os.register_at_fork(after_in_child=_disown)
