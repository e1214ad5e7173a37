import asyncio
import contextlib
import multiprocessing
import threading
import time

import pytest
from conftest import Dev, free_port, until, work_until_cancelled

from baton_sidecar import Baton, BatonError, Lost, Refused, aio


def another(dev, first):
    return until("another leads", lambda: dev.leader() != first)


def test_a_lead_has_a_token_and_is_over_when_its_block_is(dev):
    first = dev.leader()
    with Baton(dev.urls[first]).leading("scheduler") as lead:
        token = lead.token
        assert lead
        assert 0 < lead.left() < 2
        assert not lead.wait(0.01)
    assert not lead
    with pytest.raises(Lost):
        _ = lead.token
    # It has said that it has stopped: the other need not wait for anything.
    ended = time.monotonic()
    with Baton(dev.urls[1 - first]).leading("scheduler", scope="process") as lead:
        assert lead.token > token
        assert time.monotonic() - ended < 1.5


def test_a_lead_that_is_lost_ends_work_that_looks(dev):
    first = dev.leader()
    with Baton(dev.urls[first]).leading("scheduler") as lead:
        dev.call(first, "POST", "/leader/scheduler/resign", {"cooldown": "1m"})
        until("it is over", lambda: not lead)
        _ = lead.token
        pytest.fail("there is no token any more")
    another(dev, first)


def test_what_waits_is_woken_when_the_lead_is_lost(dev):
    first = dev.leader()
    called = threading.Event()
    with Baton(dev.urls[first]).leading("scheduler") as lead:
        lead.when_over(called.set)
        timer = threading.Timer(0.2, dev.call, (first, "POST", "/leader/scheduler/resign"))
        timer.start()
        assert lead.wait(20)
        timer.join()
    assert called.wait(1)


def test_an_error_of_the_work_is_told(dev):
    first = dev.leader()
    with pytest.raises(ZeroDivisionError), Baton(dev.urls[first]).leading("scheduler"):
        _ = 1 / 0
    another(dev, first)


def test_asyncio_cancels_what_the_block_waits_for(dev):
    first = dev.leader()

    async def work():
        async with aio.Baton(dev.urls[first]).leading("scheduler") as lead:
            assert lead.token > 0
            asyncio.get_running_loop().call_later(
                0.2, lambda: threading.Thread(target=dev.call, args=(first, "POST", "/leader/scheduler/resign")).start()
            )
            await work_until_cancelled()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(asyncio.wait_for(work(), 20)) == 0, "nothing of it is left behind"
    another(dev, first)


def test_asyncio_leaves_no_cancellation_behind_where_the_token_said_it_first(dev):
    first = dev.leader()

    async def work():
        async with aio.Baton(dev.urls[first]).leading("scheduler") as lead:
            threading.Thread(target=dev.call, args=(first, "POST", "/leader/scheduler/resign")).start()
            try:
                # It does not wait: nothing else can tell it.
                while True:
                    _ = lead.token
            finally:
                # The cancellation comes while this tidies up.
                with contextlib.suppress(asyncio.CancelledError):
                    await work_until_cancelled()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(asyncio.wait_for(work(), 30)) == 0


def test_asyncio_passes_on_what_others_cancel(dev):
    first = dev.leader()

    async def work():
        entered = asyncio.Event()

        async def lead():
            async with aio.Baton(dev.urls[first]).leading("scheduler"):
                entered.set()
                await work_until_cancelled()

        task = asyncio.create_task(lead())
        await asyncio.wait_for(entered.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    another(dev, first)


def test_asyncio_may_stop_waiting_for_a_lead(dev):
    first = dev.leader()

    async def work():
        async with aio.Baton(dev.urls[1 - first]).leading("scheduler"):
            pytest.fail("the other leads")

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(work(), 0.3))
    assert dev.leader() == first


def test_a_forked_child_has_no_lead_and_does_not_keep_its_parents(dev):
    first = dev.leader()
    context = multiprocessing.get_context("fork")
    goes_on = context.Event()
    tells, hears = context.Pipe()

    def child(lead):
        try:
            hears.send(lead.token)
        except Lost as lost:
            hears.send(str(lost))
        goes_on.wait(30)

    with Baton(dev.urls[first]).leading("scheduler", scope="process") as lead:
        process = context.Process(target=child, args=(lead,))
        process.start()
        assert tells.poll(20)
        assert "forked" in tells.recv()
        assert lead.token > 0
    # Were the connection open in the child, the sidecar would know nothing of its end.
    another(dev, first)
    goes_on.set()
    process.join()


def test_who_may_not_or_asks_for_nonsense_is_told(dev, tmp_path):
    with pytest.raises(Refused, match="unknown-role") as refused, Baton(dev.urls[0]).leading("nobody"):
        pytest.fail("there is no such role")
    assert refused.value.status == 404
    with pytest.raises(ValueError, match="scope"), Baton(dev.urls[0]).leading("scheduler", scope="thread"):
        pytest.fail("there is no such scope")
    with pytest.raises(ValueError, match="margin"), Baton(dev.urls[0]).leading("scheduler", margin=-1):
        pytest.fail("that is no margin")
    with pytest.raises(ValueError, match="address"):
        Baton("https://127.0.0.1:4040/leader")
    keyless = Baton(dev.urls[0], token_file=tmp_path / "none")
    with pytest.raises(BatonError, match="token cannot be read"), keyless.leading("scheduler"):
        pytest.fail("there is no token")


def test_a_sidecar_that_is_not_there_yet_is_waited_for():
    port = free_port()
    led = threading.Event()

    def work():
        with Baton(f"http://127.0.0.1:{port}").leading("scheduler"):
            led.set()

    threading.Thread(target=work, daemon=True).start()
    assert not led.wait(0.3)
    # Either may lead: the one that is asked comes to lead when the other has been asked to resign.
    dev = Dev(port)
    try:
        if dev.leader() == 1:
            dev.call(1, "POST", "/leader/scheduler/resign", {"cooldown": "1m"})
        assert led.wait(30)
    finally:
        dev.end()
