"""What is asked of the sidecar for a lead, and for a lock."""

import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Literal

from ._claim import LEAVE_S, Answer, Opened
from ._errors import BatonError, Refused, Unreachable
from ._http import Connection, Endpoint

Scope = Literal["pod", "process"]

WAIT_S = 30.0
# What the sidecar may add to a wait.
SLACK_S = 5.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 1.0
LOCK_WAIT_MAX_S = 3_600.0
# What asking again does not mend.
_FINAL = (400, 401, 403, 404)


def _query(**values: Any) -> str:
    return urllib.parse.urlencode({name: value for name, value in values.items() if value is not None})


def _ms(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


class Role:
    """`/leader/{role}/hold`"""

    def __init__(self, endpoint: Endpoint, role: str, scope: Scope) -> None:
        if scope not in ("pod", "process"):
            raise ValueError(f"scope {scope!r}: 'pod' or 'process' is wanted")
        self._endpoint, self._scope = endpoint, scope
        self._path = f"/leader/{urllib.parse.quote(role)}"

    def connect(self) -> Connection:
        return self._endpoint.connect()

    def open(self, waits_on: Callable[[Connection], None]) -> Opened:
        pause = 0.0
        while True:
            time.sleep(pause)
            pause = min(max(pause * 2, PAUSE_MIN_S), PAUSE_MAX_S)
            asked_at = time.monotonic()
            try:
                opened = self._open_once(waits_on)
            except Refused as refused:
                if refused.status in _FINAL:
                    raise
                if refused.status == 409 and time.monotonic() - asked_at >= WAIT_S:
                    pause = 0.0
            except Unreachable:
                pass
            else:
                if opened is not None:
                    return opened

    def _open_once(self, waits_on: Callable[[Connection], None]) -> Opened | None:
        connection = self._endpoint.connect()
        waits_on(connection)
        opened = None
        try:
            query = _query(wait=_ms(WAIT_S), scope=self._scope)
            lines = connection.send("GET", f"{self._path}/hold?{query}", WAIT_S + SLACK_S)
            if lines.status != 200:
                raise lines.refusal()
            match lines.line():
                case {"leader": True, "hold": str(name), "token": int(token), "valid_for_ms": int(ms)}:
                    opened = Opened(connection, lines, name, token, ms / 1000)
                    connection.wait_for_ever()
        finally:
            if opened is None:
                connection.close()
        return opened

    def lost_by(self, line: dict[str, Any], opened: Opened) -> str | None:
        if line.get("leader") is False:
            return str(line.get("reason") or "this replica does not lead")
        return None if line.get("token") == opened.token else "another term has begun"

    def ask(self, connection: Connection, opened: Opened, timeout: float) -> Answer | None:
        response = connection.send("GET", f"{self._path}?{_query(hold=opened.name)}", timeout)
        body = response.whole()
        if response.status == 410:
            return Answer(lost="the sidecar knows nothing of its connection")
        match body:
            case {"leader": bool(), "token": None | int()} if response.status == 200:
                if (reason := self.lost_by(body, opened)) is not None:
                    return Answer(lost=reason)
                ms = body.get("valid_for_ms")
                return Answer(ms / 1000) if isinstance(ms, int) else None
        return None

    def leave(self, connection: Connection, opened: Opened) -> None:
        connection.send("POST", f"{self._path}/drained?{_query(hold=opened.name)}", LEAVE_S)


class Lock:
    """`/locks/{name}/hold`"""

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        wait: float,
        owner: str | None,
        lease: float | None,
        fair: bool,
        permits: int | None,
    ) -> None:
        self._endpoint, self._wait = endpoint, wait
        self._path = f"/locks/{urllib.parse.quote(name, safe='')}"
        self._query = {
            "owner": owner,
            "lease": None if lease is None else _ms(lease),
            "fair": "true" if fair else None,
            "permits": permits,
        }

    def connect(self) -> Connection:
        return self._endpoint.connect()

    def open(self, waits_on: Callable[[Connection], None]) -> Opened:
        ends = time.monotonic() + self._wait
        while True:
            left = max(0.0, ends - time.monotonic())
            wait = min(left, LOCK_WAIT_MAX_S)
            connection = self._endpoint.connect()
            waits_on(connection)
            opened = None
            try:
                lines = connection.send(
                    "GET", f"{self._path}/hold?{_query(wait=_ms(wait), **self._query)}", wait + SLACK_S
                )
                if lines.status == 409 and left > wait:
                    continue
                if lines.status != 200:
                    raise lines.refusal()
                match lines.line():
                    case {"lock": str(name), "token": int(token), "valid_for_ms": int(ms)}:
                        opened = Opened(connection, lines, name, token, ms / 1000)
                        connection.wait_for_ever()
                        return opened
                raise BatonError("the sidecar's answer does not name the lock that it grants")
            finally:
                if opened is None:
                    connection.close()

    def lost_by(self, line: dict[str, Any], opened: Opened) -> str | None:
        return str(line["lost"]) if "lost" in line else None

    def ask(self, connection: Connection, opened: Opened, timeout: float) -> Answer | None:
        response = connection.send("PUT", f"{self._path}/{opened.name}", timeout)
        response.whole()
        if response.status == 410:
            return Answer(lost="the lock is lost")
        ms = response.header("Baton-Valid-For-Ms")
        return Answer(int(ms) / 1000) if response.status == 204 and ms is not None and ms.isdecimal() else None

    def leave(self, connection: Connection, opened: Opened) -> None:
        connection.send("DELETE", f"{self._path}/{opened.name}", LEAVE_S)
