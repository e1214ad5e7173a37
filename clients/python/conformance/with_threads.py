import sys
import threading
import time

from worker import STOPPING_S, at, listen, now, say

from baton_sidecar import Baton, Lost

end = threading.Event()
baton = Baton(_now=now)


def main() -> None:
    while not end.is_set():
        with baton.leading(sys.argv[1]) as lead:
            token = None
            try:
                while not end.is_set():
                    when = at()
                    if token is None:
                        token = lead.token
                        say("begins", token=token, at=when)
                    say("works", token=lead.token, at=when)
                    lead.wait(0.005)
            except Lost:
                say("cancelled", at=at())
            last_for(STOPPING_S)
            say("left", at=at())


def last_for(seconds: float) -> None:
    """Lets what is tested for last so long."""
    time.sleep(seconds)


listen(end.set)
leads = threading.Thread(target=main, daemon=True)
leads.start()
end.wait()
# Who does not lead is not waited for.
leads.join(timeout=2)
