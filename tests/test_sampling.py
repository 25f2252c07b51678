"""The timed loop: what happens between calls, when they begin, and what is said of it."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from hpccoll import sampling
from hpccoll.clock import now
from hpccoll.clocks import Clock
from hpccoll.engines import native as engine
from hpccoll.errors import UnsupportedError
from hpccoll.layout import OUTPUT
from hpccoll.sampling import NOTHING, Loop, choose_engine, last_cache, touched


class World:
    """One rank, or several of which this is the first; `others` join what it gathers."""

    def __init__(self, others=lambda value: []):
        self.barriers = []
        self.oversubscribed = None
        self.node = None
        self.nodes = 1
        self.comm = SimpleNamespace(
            Barrier=lambda: self.barriers.append(now()),
            allgather=lambda value: [value, *others(value)],
        )


class Noting:
    """A call that notes when it was made, and what it saw."""

    engine = function = "none"

    def __init__(self, look=lambda: None):
        self.look, self.seen = look, []

    def __call__(self):
        self.seen.append((now(), self.look()))


@pytest.fixture
def world():
    return World()


@pytest.fixture
def loop(world):
    return Loop(world, None, SimpleNamespace(call=None, since=0.0))


def test_without_the_extension_the_librarys_barrier_is_used_and_said(loop):
    assert loop.barrier == "MPI_Barrier"
    assert loop.clock == Clock()


def test_every_call_lies_between_its_time_stamps(loop):
    call = Noting()
    times = loop.run(call, 7)
    moments = np.array([moment for moment, _ in call.seen])
    assert len(moments) == 7
    assert (times.begins <= moments).all()
    assert (moments <= times.ends).all()


@pytest.mark.parametrize("barrier", [True, False])
def test_ranks_are_brought_into_step_before_every_call_if_that_is_asked(loop, world, barrier):
    times = loop.run(Noting(), 5, barrier=barrier)
    assert len(world.barriers) == 5 * barrier
    assert all(b <= t for b, t in zip(world.barriers, times.begins, strict=False))


def test_no_call_begins_before_its_time(loop):
    starts = now() + np.array([0.001, 0.004, 0.005])
    times = loop.run(Noting(), 3, barrier=False, starts=starts)
    assert (times.begins >= starts).all()


def test_a_late_rank_comes_late_after_the_barrier(loop, world):
    delays = np.array([0.0, 0.003, 0.001])
    times = loop.run(Noting(), 3, delays=delays)
    assert (times.begins - np.array(world.barriers) >= delays).all()


def test_no_calls_take_no_time(loop):
    times = loop.run(Noting(), 0)
    assert len(times.begins) == len(times.ends) == 0


# Garbage collection, watchdog


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_nothing_is_collected_during_calls_and_afterwards_it_is_as_before(loop, collecting, fails):
    def look():
        assert not gc.isenabled()
        if fails:
            raise ZeroDivisionError

    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        if fails:
            with pytest.raises(ZeroDivisionError):
                loop.run(Noting(look), 2)
        else:
            loop.run(Noting(look), 2)
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()


def test_the_watchdog_sees_the_call_while_it_is_made_and_none_afterwards(loop):
    call = Noting(lambda: (loop.watchdog.call, loop.watchdog.since))
    loop.run(call, 3)
    assert [seen for _, (seen, _) in call.seen] == [call] * 3
    since = [moment for _, (_, moment) in call.seen]
    assert since == sorted(set(since))
    assert loop.watchdog.call is None


# What is touched


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_touching_keeps_the_input_and_the_result(loop, dtype):
    spaces = [np.arange(11).astype(dtype), np.arange(13).astype(dtype)]
    loop.run(Noting(), 3, touched(spaces, in_place=False, cold=False))
    assert spaces[0].tolist() == list(range(11))
    assert spaces[1].tolist() == list(range(13))


def test_in_place_the_buffer_is_written_anew_before_every_call(loop):
    spaces = [np.zeros(0, np.float32), np.ones(5, np.float32)]

    def grow():
        before = spaces[OUTPUT].tolist()
        spaces[OUTPUT][:] = np.inf
        return before

    call = Noting(grow)
    loop.run(call, 3, touched(spaces, in_place=True, cold=False))
    assert [before for _, before in call.seen] == [[0.0] * 5] * 3


def test_cold_caches_are_filled_with_twice_their_size_and_every_line_written(loop, monkeypatch):
    monkeypatch.setattr(sampling, "last_cache", lambda: 640)
    spaces = [np.zeros(4), np.zeros(4)]
    touch = touched(spaces, in_place=False, cold=True)
    loop.run(Noting(), 3, touch)
    assert touch.evict.nbytes == 1280
    assert (touch.evict[::64] == 3).all()
    assert touched(spaces, in_place=False, cold=False).evict.nbytes == 0


def test_addresses_are_those_of_input_output_and_what_evicts():
    spaces = [np.zeros(4), np.zeros(6)]
    expected = (spaces[0].ctypes.data, 32, spaces[1].ctypes.data, 48)
    assert touched(spaces, False, False).addresses()[:4] == expected
    assert touched(spaces, True, False).addresses()[1:6:2] == (0, 48, 0)
    assert [touched(spaces, place, False).addresses()[-1] for place in (0, 1)] == [0, 1]
    assert NOTHING.addresses()[1:6:2] == (0, 0, 0)


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        ({"index0": "48K", "index2": "1024K", "index3": "36M"}, 36 << 20),
        ({"index0": "32K\n"}, 32 << 10),
        ({}, 32 << 20),
    ],
)
def test_the_last_cache_is_the_largest_that_the_system_names(
    tmp_path, monkeypatch, caches, expected
):
    for name, size in caches.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(size)
    monkeypatch.setattr(sampling, "Path", lambda _: tmp_path)
    assert last_cache() == expected


def test_the_last_cache_of_this_machine_is_a_cache():
    assert 4 << 10 <= last_cache() <= 4 << 30


# What is said about the loop


def test_the_skew_is_how_far_apart_ranks_leave_the_barrier():
    world = World(lambda begins: [begins + 3e-6, begins + 1e-6])
    median, p99 = Loop(world, None, SimpleNamespace()).skew()
    assert (median, p99) == (pytest.approx(3e-6, rel=1e-3), pytest.approx(3e-6, rel=1e-3))
    assert len(world.barriers) == sampling.PROBES


def test_the_overhead_is_the_median_time_of_a_call(loop, monkeypatch):
    ticks = iter(np.cumsum([1.0, 1.0, 5.0] * 1000))
    monkeypatch.setattr(sampling, "now", lambda: next(ticks))
    # Readings: one per run, then two per call, of which two in three are 1 s apart.
    assert loop.overhead(loop.empty()) == 1.0


def test_the_canary_without_the_extension_is_a_spin_alone(loop):
    spin, barrier = loop.canary()
    assert 0 < spin < 0.1
    assert barrier == 0.0


# The choice of an engine


def test_the_python_engine_is_taken_if_it_is_asked_for(world):
    assert choose_engine(world, "python") == (None, "as asked")


@pytest.mark.parametrize("own", [None, "not built here"])
def test_a_rank_without_the_extension_keeps_all_from_it_with_its_reason(monkeypatch, own):
    def native(comm, crowded):
        if own:
            raise UnsupportedError(own)

    monkeypatch.setattr(engine, "Native", native)
    world = World(lambda problem: ["not built there"])
    assert choose_engine(world, "auto") == (None, own or "not built there")
    with pytest.raises(UnsupportedError, match=own or "not built there"):
        choose_engine(world, "native")


@pytest.mark.parametrize("asked", ["auto", "native"])
@pytest.mark.parametrize("crowded", [None, "4 ranks share 2 cores"])
def test_the_extension_is_taken_where_all_have_it(monkeypatch, asked, crowded):
    monkeypatch.setattr(engine, "Native", lambda comm, crowded: ("extension", crowded))
    world = World(lambda problem: [None])
    world.oversubscribed = crowded
    assert choose_engine(world, asked) == (("extension", bool(crowded)), "")


# The extension's loop does the same


try:
    from hpccoll.engines import _native8 as extension
except ImportError:
    extension = None


@pytest.mark.skipif(extension is None, reason="the extension wasn't built")
def test_the_extensions_loop_touches_and_waits_as_the_python_loop_does():
    from test_native_table import program

    call, kept = program([])
    spaces = [np.arange(8.0), np.arange(8.0)]
    evict = np.zeros(1280, np.uint8)
    times = [np.zeros(3) for _ in range(2)]
    starts, delays = now() + np.array([0.001, 0.003, 0.004]), np.array([0.0, 0.001, 0.0])
    for in_place in (False, True):
        touch = sampling.Touched(spaces[0], spaces[1], evict, in_place).addresses()
        extension.sample(call, None, 3, *times, starts, delays, touch)
        assert spaces[0].tolist() == list(range(8))
        assert spaces[1].tolist() == ([0.0] * 8 if in_place else list(range(8)))
    assert (times[0] >= starts + delays).all()
    assert (times[0] <= times[1]).all()
    lines = evict.reshape(-1, 64).astype(int)
    assert (lines[:, 0] == 6).all()
    assert not lines[:, 1:].any()
    del kept
