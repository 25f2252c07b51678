"""The watchdog barks at a call that doesn't end, and at nothing else."""

import subprocess
import sys
import time

import pytest

from hpccoll import watchdog
from hpccoll.watchdog import GRACE, Watchdog

TIMEOUT = 10.0


class Time:
    """A clock, and the event that ends the watch: waiting for it only moves the clock.

    `happenings` maps a time to what happens then.
    """

    def __init__(self, happenings, end):
        self.time, self.end, self.happenings = 0.0, end, happenings

    def now(self):
        return self.time

    def wait(self, seconds):
        target = min(self.time + seconds, self.end)
        for moment in sorted(self.happenings):
            if self.time <= moment < target:
                self.happenings[moment]()
        self.time = target
        return target >= self.end


@pytest.fixture
def watch(monkeypatch):
    """Run ``watch(happenings, end)`` and return when the watchdog barked, None if it didn't.

    A happening is a time and what `since` becomes then.
    """

    def watch(happenings, end=1000.0):
        barks = []
        clock = Time({}, end)
        monkeypatch.setattr(watchdog, "now", clock.now)
        dog = Watchdog(TIMEOUT, rank=0)
        dog._stop = clock
        clock.happenings = {
            moment: lambda since=since: setattr(dog, "since", since)
            for moment, since in happenings.items()
        }

        def bark():
            barks.append(clock.time)
            clock.end = clock.time

        monkeypatch.setattr(dog, "_bark", bark)
        dog._watch()
        return barks[0] if barks else None

    return watch


PAUSED = float("inf")


@pytest.mark.parametrize(
    ("happenings", "barks"),
    [
        pytest.param({}, TIMEOUT, id="nothing ever begins"),
        pytest.param({3.0: 3.0}, 3.0 + TIMEOUT, id="one call hangs"),
        pytest.param({0.5 * i: 0.5 * i for i in range(100)}, 49.5 + TIMEOUT, id="the last hangs"),
        pytest.param({3.0: PAUSED}, None, id="paused"),
        pytest.param({3.0: PAUSED, 60.0: 60.0}, 60.0 + TIMEOUT, id="a call after a pause hangs"),
        pytest.param({9.0 * i: 9.0 * i for i in range(200)}, None, id="slow calls, each renewed"),
    ],
)
def test_it_barks_exactly_a_timeout_after_the_last_call_began(watch, happenings, barks):
    assert watch(happenings) == barks


SCRIPT = """
import time
from hpccoll.watchdog import Watchdog

class Stuck:
    engine = function = "none"

    def __call__(self):
        time.sleep(60)

    def position(self):
        return "round 2 of 3: waiting for rank 5"

with Watchdog(0.2, rank=3) as watchdog:
    watchdog.label = "allreduce ring of 8 B"
    {what}
print("ended")
"""


def run(what):
    """Run a watched piece of code in a process of its own."""
    code = SCRIPT.format(what=what)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_call_that_hangs_ends_the_process_and_says_where():
    started = time.monotonic()
    found = run("watchdog.call = Stuck(); watchdog.call()")
    # The rest is for the start of Python on a busy machine; the call itself takes a minute.
    assert 0.2 + GRACE <= time.monotonic() - started < 0.2 + GRACE + 10
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr == (
        "hpccoll: [rank 3] allreduce ring of 8 B did not end within 0.2 s: "
        "round 2 of 3: waiting for rank 5\n"
    )


def test_a_rank_between_calls_says_that_it_waits_for_others():
    found = run("time.sleep(60)")
    assert found.returncode == 1
    assert "did not end within 0.2 s: between calls, waiting for other ranks\n" in found.stderr


def test_a_paused_watchdog_lets_the_process_go_on():
    found = run("watchdog.pause(); time.sleep(0.8)")
    assert (found.returncode, found.stdout, found.stderr) == (0, "ended\n", "")


def test_leaving_ends_the_watch():
    with Watchdog(60.0, rank=0) as dog:
        assert dog._thread.is_alive()
    assert not dog._thread.is_alive()
