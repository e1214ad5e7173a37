import os
from typing import Any

from celery import Celery

app = Celery("tasks", broker=os.environ.get("CELERY_BROKER", "redis://127.0.0.1:6379"))
app.conf.beat_schedule = {"report": {"task": "tasks.report", "schedule": 1.0}}
app.conf.baton_role = "scheduler"


@app.task(bind=True)
def report(self: Any) -> None:
    print(f"acting with token {self.request.headers['baton_token']}", flush=True)
