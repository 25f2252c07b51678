"""Work in several processes: results in order, and an end to all of them whatever happens."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

from hpccoll.errors import UsageError, WorkerError
from hpccoll.processes import each


@pytest.mark.parametrize(("count", "jobs"), [(0, 4), (1, 4), (7, 1), (7, 2), (3, 50)])
def test_results_come_in_order_though_the_first_take_longest(count, jobs):
    def work(number):
        time.sleep(0.01 * (count - number))
        return number, os.getpid()

    results = list(each(work, count, jobs))
    assert [number for number, _ in results] == list(range(count))
    assert all((pid == os.getpid()) == (min(jobs, count) < 2) for _, pid in results)
    assert len({pid for _, pid in results}) <= jobs
    assert not active_children()


def test_an_exception_is_raised_here_and_ends_all():
    def work(number):
        if number == 1:
            raise UsageError("no such thing")
        time.sleep(60 * (number > 1))
        return number

    with pytest.raises(UsageError, match="no such thing"):
        list(each(work, 9, 3))
    assert not active_children()


def test_a_process_that_is_killed_is_noticed_and_ends_all():
    def work(number):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    with pytest.raises(WorkerError, match="fewer --jobs"):
        list(each(work, 9, 2))
    assert not active_children()


def test_whoever_stops_asking_ends_all():
    def work(number):
        time.sleep(60 * (number > 0))
        return number

    results = each(work, 9, 3)
    assert next(results) == 0
    assert len(active_children()) == 3
    results.close()
    assert not active_children()


PROGRAM = """
import os, sys, time
from hpccoll.processes import each
def work(number):
    os.write(1, b"%d\\n" % os.getpid())  # a line at once: both processes write here
    time.sleep(60)
list(each(work, 4, 2))
"""


def test_an_interrupt_ends_all():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        pids = [int(program.stdout.readline()) for _ in range(2)]
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=30)
    assert said.count("KeyboardInterrupt") == 1
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
