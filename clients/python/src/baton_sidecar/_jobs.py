import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any


@dataclass(frozen=True)
class JobRun:
    """An attempt at a run of a job, as the sidecar asks for it."""

    id: str
    """The run's, the same for all its attempts."""
    scheduled_time: datetime
    """When it was due."""
    attempt: int
    """1, 2, 3, …"""
    token: int
    """The fencing token of this attempt: hand it on to whatever is written to."""
    shard: int | None
    """The number of its shard, where the role is split."""
    body: bytes
    """What the configuration has the sidecar send."""


class Runs:
    """Tells what is to be done from what a later leader has overtaken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Tokens of two shards do not compare.
        self._greatest: dict[int | None, int] = {}

    def begin(self, headers: Mapping[str, str], body: bytes) -> JobRun | tuple[int, str]:
        """The run, or the status and the text of a refusal."""
        named = {name.lower(): value for name, value in headers.items()}
        try:
            shard = named.get("baton-shard")
            run = JobRun(
                id=named["baton-run-id"],
                scheduled_time=datetime.fromisoformat(named["baton-scheduled-time"]),
                attempt=int(named["baton-attempt"]),
                token=int(named["baton-fencing-token"]),
                shard=None if shard is None else int(shard),
                body=body,
            )
        except KeyError as error:
            return 400, f"the header {error.args[0]} is missing: this is for the sidecar's jobs"
        except ValueError as error:
            return 400, f"a header of the sidecar's jobs is not what it should be: {error}"
        with self._lock:
            greatest = self._greatest.get(run.shard, 0)
            if run.token < greatest:
                return 409, f"token {run.token}: a later leader has sent {greatest}"
            self._greatest[run.shard] = run.token
        return run


class JobHandler:
    """Does a job's work when the sidecar asks for it. It is an application of WSGI.

    The work is given the run. What it returns is the note of the attempt; what it raises makes it fail. An attempt
    whose token is smaller than one that was seen of its shard is refused: a later leader has sent that.
    """

    def __init__(self, work: Callable[[JobRun], str | None]) -> None:
        self._work, self._runs = work, Runs()

    def handle(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """The status and the text to answer with, for frameworks of any kind."""
        match self._runs.begin(headers, body):
            case JobRun() as run:
                try:
                    return 200, self._work(run) or ""
                except Exception as error:
                    return 500, str(error) or type(error).__name__
            case refusal:
                return refusal

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        headers = {name[5:].replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, text = self.handle(headers, body)
        content = [("Content-Type", "text/plain; charset=utf-8")]
        start_response(f"{status} {HTTPStatus(status).phrase}", content)
        return [text.encode()]
