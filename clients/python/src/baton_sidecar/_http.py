"""Requests to the sidecar, over connections that no child of this process inherits."""

import contextlib
import http.client
import json
import os
import socket
import urllib.parse
import weakref
from collections.abc import Mapping
from typing import Any

from ._errors import BatonError, LockHeld, Refused, Unreachable

CONNECT_S = 1.0

_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_inherited() -> None:
    # A connection shows that its process lives. In a child it would, when its parent is dead.
    for sock in list(_open):
        with contextlib.suppress(OSError):
            os.close(sock.detach())


os.register_at_fork(after_in_child=_close_inherited)


class Endpoint:
    """Where the sidecar is."""

    def __init__(self, url: str | None, token_file: str | os.PathLike[str] | None) -> None:
        given = url or os.environ.get("BATON_URL") or "http://127.0.0.1:4040"
        parts = urllib.parse.urlsplit(given)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"{given!r} is not the sidecar's address: http://127.0.0.1:4040 is wanted, without a path")
        self._address = (parts.hostname, parts.port or 80)
        self._token_file = token_file or os.environ.get("BATON_TOKEN_FILE")

    def connect(self) -> "Connection":
        return Connection(self._address, self._token_file)


class Connection:
    """One connection, for one request after the other by one thread. Any other may interrupt it."""

    def __init__(self, address: tuple[str, int], token_file: str | os.PathLike[str] | None) -> None:
        self._token_file = token_file
        # Neither a proxy nor a redirect: this module knows of none.
        self._http = http.client.HTTPConnection(*address, timeout=CONNECT_S)
        # A new connection is a new object: this one would not be closed by who knows this.
        self._http.auto_open = 0
        try:
            self._http.connect()
        except OSError as error:
            raise Unreachable(f"no connection to the sidecar at {address[0]}:{address[1]}: {error}") from error
        self._socket: socket.socket = self._http.sock
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _open.add(self._socket)

    def send(self, method: str, path: str, timeout: float, body: Mapping[str, Any] | None = None) -> "Response":
        """Asks, and waits for the head of the answer for `timeout` seconds at the most."""
        headers = {}
        if self._token_file is not None:
            try:
                with open(self._token_file, encoding="utf-8") as file:
                    headers["Authorization"] = f"Bearer {file.read().strip()}"
            except OSError as error:
                raise BatonError(f"the file with the sidecar's token cannot be read: {error}") from error
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            self._socket.settimeout(timeout)
            self._http.request(method, path, None if body is None else json.dumps(body), headers)
            return Response(self._http.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"no answer to {method} {path}: {error or type(error).__name__}") from error

    def wait_for_ever(self) -> None:
        """What is read from now on may take as long as it likes."""
        self._socket.settimeout(None)

    def interrupt(self) -> None:
        """Ends it, whichever thread waits on it: that one is to close it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()


class Response:
    """An answer whose body is yet to be read."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str | None:
        return self._response.getheader(name)

    def line(self) -> dict[str, Any] | None:
        """The next line of JSON; none at the end."""
        try:
            line = self._response.readline()
        except (OSError, http.client.HTTPException, ValueError):
            return None
        return _object(line)

    def whole(self) -> dict[str, Any]:
        """All of it: an object, empty if it is none."""
        try:
            return _object(self._response.read()) or {}
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"the answer broke off: {error}") from error

    def refusal(self) -> Refused:
        kind = LockHeld if self.status == 409 else Refused
        try:
            return kind(self.status, self.whole())
        except Unreachable:
            return kind(self.status, {})


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
