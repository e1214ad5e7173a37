import asyncio
import io
from datetime import UTC, datetime
from wsgiref.util import setup_testing_defaults

from baton_sidecar import JobHandler, aio

HEADERS = {
    "Baton-Run-Id": "nightly-1763690400",
    "Baton-Scheduled-Time": "2025-11-21T02:00:00Z",
    "Baton-Attempt": "2",
    "Baton-Fencing-Token": "41",
}


def test_work_is_given_its_run_and_its_word_is_the_note():
    runs = []
    handler = JobHandler(lambda run: runs.append(run) or "41 rows")
    assert handler.handle(HEADERS | {"Baton-Shard": "3"}, b"{}") == (200, "41 rows")
    (run,) = runs
    assert (run.id, run.attempt, run.token, run.shard, run.body) == ("nightly-1763690400", 2, 41, 3, b"{}")
    assert run.scheduled_time == datetime(2025, 11, 21, 2, tzinfo=UTC)
    assert JobHandler(lambda _run: None).handle(HEADERS, b"") == (200, "")


def test_work_that_fails_says_why():
    def fail(_run):
        raise OSError("no disk")

    assert JobHandler(fail).handle(HEADERS, b"") == (500, "no disk")


def test_what_a_later_leader_has_overtaken_is_not_begun():
    runs = []
    handler = JobHandler(lambda run: runs.append(run.token))
    for token, status in [("41", 200), ("43", 200), ("42", 409), ("43", 200)]:
        assert handler.handle(HEADERS | {"Baton-Fencing-Token": token}, b"")[0] == status
    assert handler.handle(HEADERS | {"Baton-Shard": "3"}, b"")[0] == 200, "tokens of two shards do not compare"
    assert runs == [41, 43, 43, 41]


def test_what_is_no_job_is_refused():
    handler = JobHandler(lambda _run: "done")
    for name in HEADERS:
        status, text = handler.handle({key: value for key, value in HEADERS.items() if key != name}, b"")
        assert status == 400
        assert name.lower() in text
    assert handler.handle(HEADERS | {"Baton-Attempt": "two"}, b"")[0] == 400


def test_it_is_an_application_of_wsgi():
    environ = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "2", "wsgi.input": io.BytesIO(b"{}")}
    setup_testing_defaults(environ)
    environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in HEADERS.items()}
    said = []
    body = JobHandler(lambda run: run.body.decode())(environ, lambda status, _headers: said.append(status))
    assert (said, b"".join(body)) == (["200 OK"], b"{}")


def test_it_is_an_application_of_asgi():
    async def work(run):
        return await asyncio.to_thread(run.body.decode)

    async def serve():
        parts = iter([{"body": b"{", "more_body": True}, {"body": b"}"}])
        sent = []

        async def receive():
            return next(parts)

        async def send(message):
            sent.append(message)

        headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
        await aio.JobHandler(work)({"type": "http", "headers": headers}, receive, send)
        return sent

    start, body = asyncio.run(serve())
    assert (start["status"], body["body"]) == (200, b"{}")
