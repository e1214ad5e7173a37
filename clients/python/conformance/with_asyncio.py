import asyncio
import contextlib
import sys

from worker import STOPPING_S, at, listen, now, say

from baton_sidecar.aio import Baton

baton = Baton(_now=now)


async def main() -> None:
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    listen(lambda: loop.call_soon_threadsafe(end.set))
    leads = asyncio.create_task(lead_again_and_again(end))
    await end.wait()
    # Who does not lead is not waited for.
    await asyncio.wait([leads], timeout=2)
    leads.cancel()


async def lead_again_and_again(end: asyncio.Event) -> None:
    while not end.is_set():
        async with baton.leading(sys.argv[1]) as lead:
            token = None
            try:
                while not end.is_set():
                    when = at()
                    if token is None:
                        token = lead.token
                        say("begins", token=token, at=when)
                    say("works", token=lead.token, at=when)
                    await last_for(0.005)
            finally:
                if not end.is_set():
                    say("cancelled", at=at())
                leaving = asyncio.create_task(leave())
                while not leaving.done():
                    # The token may have said that it is over: then the cancellation comes in here.
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.shield(leaving)


async def last_for(seconds: float) -> None:
    """Lets what is tested for last so long."""
    await asyncio.sleep(seconds)


async def leave() -> None:
    await last_for(STOPPING_S)
    say("left", at=at())


asyncio.run(main())
