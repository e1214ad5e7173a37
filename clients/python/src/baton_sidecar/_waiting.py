import threading
import time
from collections.abc import Callable

from ._claim import Claim, Source
from ._errors import Lost
from ._http import Connection
from ._sources import PAUSE_MIN_S


class Waiting:
    """Waits for a claim, until another thread says that it is not waited for any more."""

    def __init__(self, source: Source, clock: Callable[[], float], margin: float | None) -> None:
        if margin is not None and not 0 <= margin < float("inf"):
            raise ValueError(f"margin {margin!r}: seconds, 0 or more, are wanted")
        self._source, self._clock, self._margin = source, clock, margin
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._is_over = False

    def claim(self) -> Claim:
        """The claim, from the moment that it may be used. `Lost` after `stop`."""
        while True:
            claim = Claim(self._source, self._source.open(self._waits_on), self._clock, self._margin)
            has_begun = False
            try:
                has_begun = claim.begins()
            finally:
                if not has_begun:
                    claim.close()
            if has_begun:
                return claim
            time.sleep(PAUSE_MIN_S)

    def stop(self) -> None:
        with self._lock:
            self._is_over = True
            if self._connection is not None:
                self._connection.interrupt()

    def _waits_on(self, connection: Connection) -> None:
        with self._lock:
            self._connection = connection
            if self._is_over:
                raise Lost("it is not waited for any more")
