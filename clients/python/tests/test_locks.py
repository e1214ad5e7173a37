import math
import threading

import pytest
from conftest import until

from baton_sidecar import Baton, LockHeld, Lost, Unreachable
from baton_sidecar._claim import Answer


def holder(dev):
    return dev.call(0, "GET", "/locks/orders%2F42")["holders"]


def test_a_lock_keeps_others_out_until_its_block_has_ended(dev):
    one, other = Baton(dev.urls[0]), Baton(dev.urls[1])
    with one.lock("orders/42", owner="one") as lock:
        token = lock.token
        with pytest.raises(LockHeld) as held, other.lock("orders/42"):
            pytest.fail("it is held")
        assert held.value.holder["owner"] == "one"
        assert held.value.type == "lock-held"
    until("it is free", lambda: holder(dev) == [])
    with other.lock("orders/42", lease=1, fair=True) as lock:
        assert lock.token > token


def test_a_lock_is_waited_for(dev):
    has, done = threading.Event(), threading.Event()

    def hold():
        with Baton(dev.urls[0]).lock("orders/42"):
            has.set()
            done.wait(30)

    threading.Thread(target=hold, daemon=True).start()
    assert has.wait(20)
    threading.Timer(0.3, done.set).start()
    with Baton(dev.urls[1]).lock("orders/42", wait=math.inf) as lock:
        assert done.is_set()
        assert lock


def test_a_lock_that_an_operator_takes_away_is_lost(dev):
    with Baton(dev.urls[0]).lock("orders/42") as lock:
        dev.call(1, "DELETE", "/locks/orders%2F42", {"token": lock.token})
        assert lock.wait(20)
        with pytest.raises(Lost, match="operator"):
            _ = lock.token


def test_so_many_may_hold_it_as_there_are_permits(dev):
    baton = Baton(dev.urls[0])
    one, other = baton.lock("pool", permits=2), baton.lock("pool", permits=2)
    with one, other, pytest.raises(LockHeld), baton.lock("pool", permits=2):
        pytest.fail("there are two")


def test_a_sidecar_that_is_not_there_is_told():
    with pytest.raises(Unreachable), Baton("http://127.0.0.1:9").lock("orders/42"):
        pytest.fail("there is none")


def test_answers_are_compared_by_what_they_say():
    assert Answer(1.5) == Answer(1.5) != Answer(lost="it is lost")
