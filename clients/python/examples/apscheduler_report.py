from apscheduler.schedulers.blocking import BlockingScheduler

from baton_sidecar.scheduling import Leader

leader = Leader("scheduler")
scheduler = BlockingScheduler()


@scheduler.scheduled_job("interval", seconds=1)
@leader.only
def report() -> None:
    print(f"acting with token {leader.token}", flush=True)


scheduler.start()
