import asyncio
import threading

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from celery import Celery
from celery.schedules import schedule
from conftest import until, until_async, work_until_cancelled

from baton_sidecar import Baton, Lost
from baton_sidecar.celery import LeaderScheduler
from baton_sidecar.scheduling import Leader


def resign(dev, replica):
    dev.call(replica, "POST", "/leader/scheduler/resign", {"cooldown": "1m"})


def test_of_two_schedulers_one_does_something_and_the_other_goes_on_after_it(dev):
    first = dev.leader()
    leaders = [Leader("scheduler", Baton(url)) for url in dev.urls]
    tokens = [[], []]
    schedulers = [BackgroundScheduler() for _ in leaders]
    for leader, scheduler, seen in zip(leaders, schedulers, tokens, strict=True):
        scheduler.add_job(
            leader.only(lambda leader=leader, seen=seen: seen.append(leader.token)), "interval", seconds=0.05
        )
        scheduler.start()
    until("the leader's works", lambda: len(tokens[first]) > 2)
    assert tokens[1 - first] == []
    resign(dev, first)
    until("the other's works", lambda: len(tokens[1 - first]) > 2)
    assert max(tokens[first]) < min(tokens[1 - first])
    for leader, scheduler in zip(leaders, schedulers, strict=True):
        scheduler.shutdown()
        leader.stop()
    assert [leader.error for leader in leaders] == [None, None]


def test_the_lead_is_kept_until_what_was_begun_has_returned(dev):
    first = dev.leader()
    leader = Leader("scheduler", Baton(dev.urls[first]))
    begun, goes_on = threading.Event(), threading.Event()

    @leader.only
    def work():
        begun.set()
        goes_on.wait(30)

    until("it leads", lambda: threading.Thread(target=work).start() or begun.wait(0.1))
    stopping = threading.Thread(target=leader.stop)
    stopping.start()
    with pytest.raises(Lost):
        until("it leads no more", lambda: leader.token == 0)
    assert dev.leader() == first, "another might lead while it works"
    goes_on.set()
    stopping.join(20)
    until("another leads", lambda: dev.leader() != first)
    assert work() is None


def test_a_coroutine_is_cancelled_when_the_lead_is_over(dev):
    first = dev.leader()
    leader = Leader("scheduler", Baton(dev.urls[first]))
    begun = threading.Event()

    @leader.only
    async def work():
        begun.set()
        await work_until_cancelled()

    async def run():
        tasks = []

        def has_begun():
            # Before this replica leads each ends at once.
            if not tasks or tasks[-1].done():
                tasks.append(asyncio.create_task(work()))
            return begun.is_set()

        await until_async("the work begins", has_begun)
        await asyncio.to_thread(resign, dev, first)
        return await asyncio.wait_for(tasks[-1], 20)

    assert asyncio.run(run()) is None


def test_who_may_not_lead_says_why(dev):
    leader = Leader("nobody", Baton(dev.urls[0]))
    assert until("it gives up", lambda: leader.error).status == 404


def test_one_beat_sends_and_its_tasks_have_the_token(dev, tmp_path):
    first = dev.leader()
    sent = [[], []]
    beats = []
    for number, url in enumerate(dev.urls):
        app = Celery(broker="memory://", set_as_current=False)
        app.conf.update(
            beat_schedule={"report": {"task": "report", "schedule": schedule(0.1)}},
            baton_url=url,
            baton_role="scheduler",
        )
        app.send_task = lambda *_args, headers, seen=sent[number], **_named: seen.append(headers["baton_token"])
        beats.append(LeaderScheduler(app, schedule_filename=str(tmp_path / str(number))))

    def ticks(replica):
        for beat in beats:
            assert beat.tick() <= 0.2
        return len(sent[replica]) > 2

    until("the leader's beat sends", lambda: ticks(first))
    assert sent[1 - first] == []
    resign(dev, first)
    until("the other's sends", lambda: ticks(1 - first))
    assert max(sent[first]) < min(sent[1 - first])
    for beat in beats:
        beat.close()
