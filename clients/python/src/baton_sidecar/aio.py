"""The same for asyncio: what works under a lead or a lock is cancelled before what the sidecar promised runs out."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from ._baton import Sidecar
from ._claim import Claim
from ._errors import Lost
from ._held import Held
from ._jobs import JobRun, Runs
from ._sources import Scope
from ._waiting import Waiting

__all__ = ["Baton", "JobHandler"]


class Baton(Sidecar):
    """The sidecar of this pod, for tasks. May be used by many at once.

    The sidecar is asked by threads of this package: a loop that is blocked loses no lead by that.
    """

    @contextlib.asynccontextmanager
    async def leading(self, role: str, *, scope: Scope = "pod", margin: float | None = None) -> AsyncIterator[Held]:
        """As `baton_sidecar.Baton.leading`. When it is over, what the block waits for is cancelled, and the block ends.

        Example:
            async with Baton().leading("scheduler") as lead:
                while True:
                    await work(lead.token)
        """
        async with _held(role, self._waiting_for_lead(role, scope, margin)) as held:
            yield held

    @contextlib.asynccontextmanager
    async def lock(
        self,
        name: str,
        *,
        wait: float = 0.0,
        owner: str | None = None,
        lease: float | None = None,
        fair: bool = False,
        permits: int | None = None,
        margin: float | None = None,
    ) -> AsyncIterator[Held]:
        """As `baton_sidecar.Baton.lock`. When it is over, what the block waits for is cancelled, and the block ends."""
        async with _held(name, self._waiting_for_lock(name, wait, owner, lease, fair, permits, margin)) as held:
            yield held


@contextlib.asynccontextmanager
async def _held(name: str, waiting: Waiting) -> AsyncIterator[Held]:
    claim = await _claim(waiting)
    try:
        with cancelled_when_over(claim):
            yield Held(name, claim)
    finally:
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, claim.leave))


@contextlib.contextmanager
def cancelled_when_over(claim: Claim) -> Iterator[None]:
    """A block that ends, by cancellation of its task, when the claim is over."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "an asynchronous context manager runs in a task"
    cancels_before = task.cancelling()
    is_cancelled = has_left = False

    def cancel() -> None:
        nonlocal is_cancelled
        # In the loop, so that the task waits for something meanwhile, and for nothing that comes after the block.
        if not has_left:
            is_cancelled = True
            task.cancel("the lead or lock is over")

    # The loop may have ended: then there is nothing to cancel.
    claim.when_over(lambda: _in_loop(loop, cancel))
    try:
        yield
    except asyncio.CancelledError:
        if not is_cancelled:
            raise
        is_cancelled = False
        # Others may have cancelled it, too.
        if task.uncancel() > cancels_before:
            raise
    except Lost as lost:
        if lost._of is not claim:
            raise
    finally:
        has_left = True
        # It came, and the block has ended in another way.
        if is_cancelled:
            task.uncancel()


async def _claim(waiting: Waiting) -> Claim:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Claim] = loop.create_future()

    def give(claim: Claim) -> None:
        if future.done():
            threading.Thread(target=claim.leave, daemon=True).start()
        else:
            future.set_result(claim)

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    def wait() -> None:
        try:
            claim = waiting.claim()
        except Exception as error:
            _in_loop(loop, functools.partial(fail, error))
        else:
            if not _in_loop(loop, functools.partial(give, claim)):
                claim.leave()

    # Of its own: it may wait for days, and a loop has few to lend.
    threading.Thread(target=wait, name="baton waits", daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        waiting.stop()
        raise


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> bool:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        return False
    return True


class JobHandler:
    """As `baton_sidecar.JobHandler`, for work that is a coroutine. It is an application of ASGI."""

    def __init__(self, work: Callable[[JobRun], Awaitable[str | None]]) -> None:
        self._work, self._runs = work, Runs()

    async def handle(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """The status and the text to answer with."""
        match self._runs.begin(headers, body):
            case JobRun() as run:
                try:
                    return 200, await self._work(run) or ""
                except Exception as error:
                    return 500, str(error) or type(error).__name__
            case refusal:
                return refusal

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']}: only requests are handled")
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status, text = await self.handle(headers, body)
        content = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": status, "headers": content})
        await send({"type": "http.response.body", "body": text.encode()})
