from baton_sidecar import Baton

baton = Baton()
while True:
    with baton.leading("scheduler") as lead:
        while not lead.wait(1):
            print(f"acting with token {lead.token}", flush=True)
