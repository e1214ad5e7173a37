import asyncio

from baton_sidecar.aio import Baton


async def main() -> None:
    while True:
        async with Baton().leading("scheduler") as lead:
            while True:
                print(f"acting with token {lead.token}", flush=True)
                await asyncio.sleep(1)


asyncio.run(main())
