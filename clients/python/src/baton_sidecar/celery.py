"""For Celery, on every replica: `celery beat --scheduler baton_sidecar.celery:LeaderScheduler`. One of them sends."""

from typing import Any

from celery.beat import PersistentScheduler
from celery.utils.log import get_logger

from ._baton import Baton
from ._held import Held
from .scheduling import Leader

__all__ = ["LeaderScheduler"]

info = get_logger("celery.beat").info
# How often who does not lead looks whether it does.
REST_S = 0.2


class LeaderScheduler(PersistentScheduler):  # type: ignore[misc]
    """Sends what is due while this replica leads the role `baton_role` of Celery's configuration, else `celery-beat`.

    Each task has the fencing token in its header `baton_token`. What was due while another led is not sent again: each
    replica has a file of its own, and knows nothing of what others have sent. The sidecar is found by `baton_url` and
    `baton_token_file`, else as by `Baton()`.
    """

    def __init__(self, app: Any, *args: Any, **named: Any) -> None:
        self._leader: Leader | None = None
        self._lead: Held | None = None
        super().__init__(app, *args, **named)

    def setup_schedule(self) -> None:
        super().setup_schedule()
        conf = self.app.conf
        baton = Baton(conf.get("baton_url"), token_file=conf.get("baton_token_file"))
        self._leader = Leader(conf.get("baton_role", "celery-beat"), baton)

    def tick(self, *args: Any, **named: Any) -> float:
        if self._leader is None or self._leader.error is not None:
            raise self._leader.error if self._leader and self._leader.error else RuntimeError("it is not set up")
        with self._leader.acting() as lead:
            if lead is None:
                return REST_S
            if lead is not self._lead:
                self._lead = lead
                self._begin_anew()
            return min(float(super().tick(*args, **named)), REST_S)

    def apply_async(self, entry: Any, *args: Any, **named: Any) -> Any:
        """As Celery's, with the token: none is sent once the lead is over."""
        if self._lead is not None:
            token = self._lead.token
            headers = {**entry.options.get("headers", {}), "baton_token": token}
            info("acting with token %s", token)
            entry.options = {**entry.options, "headers": headers}
        return super().apply_async(entry, *args, **named)

    def close(self) -> None:
        if self._leader is not None:
            self._leader.stop()
        super().close()

    def _begin_anew(self) -> None:
        for entry in self.schedule.values():
            entry.last_run_at = entry.default_now()
        self._heap = None
