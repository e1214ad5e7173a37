from wsgiref.simple_server import make_server

from baton_sidecar import JobHandler, JobRun


def nightly(run: JobRun) -> str:
    return f"attempt {run.attempt} of {run.id}, with token {run.token}"


make_server("127.0.0.1", 8080, JobHandler(nightly)).serve_forever()
