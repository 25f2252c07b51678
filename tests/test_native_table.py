"""The native engine without MPI: the table it makes of a plan, and the extension that runs it.

The extension gets its MPI functions by address, so here they are made in Python.
"""

import ctypes
from collections import defaultdict, deque
from itertools import product
from threading import Lock, Thread
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pytest

from hpccoll.bind import bind
from hpccoll.conversions import convert
from hpccoll.datatypes import OPERATORS, converted
from hpccoll.engines import loopback, native
from hpccoll.engines import rows as table
from hpccoll.engines.rows import (
    CONVERT_IN,
    CONVERT_OUT,
    COPY,
    PROBE,
    RECEIVE,
    REDUCE,
    SCALE,
    SEND,
    WAIT,
    WAIT_REDUCE,
)
from hpccoll.layout import INPUT, USER, Message
from hpccoll.plan import Wait
from hpccoll.segmentation import Segmentation
from hpccoll.spelling import choose

CHOICES = [
    *(("allreduce", name) for name in ("ring", "recursive-doubling", "rabenseifner", "circulant")),
    *(("reduce-scatter", "ring"), ("allgather", "bruck"), ("bcast", "binomial")),
    *(("reduce", "binomial"), ("allreduce", "tree"), ("allreduce", "ring:segments=2")),
]
CASES = [(*choice, size) for choice in CHOICES for size in range(1, 6)]


def plans_of(of, name, size, count=23, itemsize=8, in_place=False, average=False, cut=None):
    """Return the plans of all ranks; none if the algorithm isn't defined for them."""
    (choice,) = choose(of, name)
    if not choice.supports(size):
        pytest.skip(f"{name} isn't defined for {size} ranks")
    message = Message(count, itemsize, size - 1, in_place, average)
    if not choice.algorithm.collective.rooted:
        message = Message(count, itemsize, 0, in_place, average)
    cut = Segmentation() if cut is None else cut
    return [bind(choice, rank, size, message, cut) for rank in range(size)]


def inputs_of(plans, dtype):
    """Return small integers for every rank, which no order of adding changes."""
    rng = np.random.default_rng(7)
    return [rng.integers(0, 40, plan.layout.held.count).astype(dtype) for plan in plans]


def spaces_of(plan, data, dtype):
    """Return input, output and scratch, the output full of ones that nobody should see."""
    layout = plan.layout
    output = np.full(layout.output, 1, dtype)
    if layout.in_place:
        output[layout.held.offset :][: layout.held.count] = data
    return [data[: layout.input].copy(), output, np.full(plan.scratch, 1, dtype)]


def results(plans, spaces):
    """Return every rank's result."""
    return [
        output[: plan.layout.result.count]
        for plan, (_, output, *_) in zip(plans, spaces, strict=True)
    ]


# The table


def rows_of(plans, *itemsizes):
    return [table.rows(plan, itemsizes)[0] for plan in plans]


def interpret(tables, spaces, dtype, divisor, narrow=None):
    """Run all ranks' tables as the extension's comment defines their rows, on numpy arrays."""
    queues = defaultdict(deque)
    ranks = [
        _interpreter(rank, table, own, np.dtype(dtype), divisor, narrow, queues)
        for rank, (table, own) in enumerate(zip(tables, spaces, strict=True))
    ]
    for _ in range(10_000):
        ranks = [rank for rank in ranks if next(rank, None) is not None]
        if not ranks:
            return
    raise AssertionError("the tables hang")


def _interpreter(rank, table, spaces, dtype, divisor, narrow, queues):
    """Yield whenever a message isn't there yet."""
    posted = {}

    def part(row, column, bytes_):
        space, offset = row[column : column + 2]
        whole = spaces[space].view(np.uint8)
        assert 0 <= offset <= offset + bytes_ <= whole.size
        return whole[offset : offset + bytes_]

    def elements(row, column, count):
        of = np.dtype(dtype if row[column] < USER else narrow)
        return part(row, column, count * of.itemsize).view(of)

    for row in table:
        operation, slot, peer, tag, *_, length = row
        size = length * dtype.itemsize
        if operation == SEND:
            queues[rank, peer, tag].append(part(row, 6, length).copy())
        elif operation == RECEIVE:
            posted[slot] = peer, tag, part(row, 4, length)
        elif operation in (WAIT, WAIT_REDUCE) and slot in posted:
            # Sends are complete at once; a slot is a receive's until it is waited for.
            source, tag, target = posted.pop(slot)
            while not queues[source, rank, tag]:
                yield True
            target[:] = queues[source, rank, tag].popleft()
        if operation in (REDUCE, WAIT_REDUCE):
            into, left, right = (elements(row, column, length) for column in (4, 6, 8))
            into[:] = np.add(left, right, dtype=dtype)
        elif operation == COPY:
            part(row, 4, length)[:] = part(row, 6, length).copy()
        elif operation == SCALE:
            part(row, 4, size).view(dtype)[:] /= divisor
        elif operation in (CONVERT_IN, CONVERT_OUT):
            assert (operation == CONVERT_IN) == (row[4] < USER)
            elements(row, 4, length)[:] = elements(row, 6, length)


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
@pytest.mark.parametrize(("of", "name", "size"), CASES)
def test_the_table_does_what_the_plan_does(of, name, size, in_place):
    for cut in (Segmentation(), Segmentation(16, 2)):
        plans = plans_of(of, name, size, in_place=in_place, cut=cut)
        inputs = inputs_of(plans, np.int64)
        expected = loopback.run(plans, inputs)
        spaces = [spaces_of(p, data, np.int64) for p, data in zip(plans, inputs, strict=True)]
        interpret(rows_of(plans, 8, 8, 8), spaces, np.int64, size)
        for found, output, plan in zip(results(plans, spaces), expected, plans, strict=True):
            np.testing.assert_array_equal(found, output[: plan.layout.result.count])


@pytest.mark.parametrize("in_place", [False, True], ids=["out of place", "in place"])
@pytest.mark.parametrize(
    ("of", "name", "size"), [case for case in CASES if "reduce" in case[0] and ":" not in case[1]]
)
def test_averages_of_16_bit_floats_are_taken_in_float32_and_converted(of, name, size, in_place):
    bound = plans_of(of, name, size, itemsize=4, in_place=in_place, average=True)
    plans = [convert(plan, True, bound.__getitem__) for plan in bound]
    inputs = inputs_of(plans, np.float16)
    expected = loopback.run(bound, [data.astype(np.float32) for data in inputs])
    user = [spaces_of(p, data, np.float16)[:2] for p, data in zip(plans, inputs, strict=True)]
    spaces = [
        [
            *(np.full(u.size, np.nan, np.float32) for u in own),
            np.zeros(p.scratch, np.float32),
            *own,
            np.zeros(p.landing, np.float16),
        ]
        for p, own in zip(plans, user, strict=True)
    ]
    interpret(rows_of(plans, 4, 4, 4, 2, 2, 2), spaces, np.float32, size, np.float16)
    for found, output, plan in zip(results(plans, user), expected, plans, strict=True):
        right = output[: plan.layout.result.count].astype(np.float16)
        np.testing.assert_array_equal(found, right)


def test_a_received_operand_is_reduced_by_the_operation_that_waits_for_it():
    plan = plans_of("reduce-scatter", "ring", 2, count=16, cut=Segmentation(16, 2))[0]
    operations = [row[0] for row in table.rows(plan, (8, 8, 8))[0]]
    assert (operations.count(WAIT_REDUCE), operations.count(REDUCE)) == (4, 0)


@pytest.mark.parametrize(("of", "name", "size"), CASES)
def test_fusing_only_joins_a_wait_to_the_reduction_right_after_it(of, name, size):
    for plan in plans_of(of, name, size, cut=Segmentation(16, 2)):
        rows, origins = table.rows(plan, (8, 8, 8))
        apart, posted = [], {}
        for row in rows:
            fused = row[0] == WAIT_REDUCE
            apart += [(WAIT, row[1], *[0] * 9), (REDUCE, 0, *row[2:])] if fused else [row]
            if row[0] in (SEND, RECEIVE):
                posted[row[1]] = row
            if fused:  # its operand is what it has waited for
                message = posted[row[1]]
                assert message[0] == RECEIVE
                assert message[4:6] in (row[6:8], row[8:10])
        plain = [r for step in plan.instructions for r in table._translated(step, (8, 8, 8))]
        assert apart == plain
        # Whatever may hang stands for its wait, so that it is said what is waited for.
        for row, origin in zip(rows, origins, strict=True):
            waits = row[0] in (WAIT, WAIT_REDUCE)
            assert isinstance(plan.instructions[origin], Wait) == waits


# The extension on an MPI that is made in Python

try:
    from hpccoll.engines import _native8 as extension
except ImportError:
    extension = None
built = pytest.mark.skipif(extension is None, reason="the extension wasn't built")

INTEGER, HANDLE = ctypes.c_int, ctypes.c_void_p
POST = ctypes.CFUNCTYPE(
    INTEGER, HANDLE, INTEGER, HANDLE, INTEGER, INTEGER, HANDLE, ctypes.POINTER(HANDLE)
)
TEST = ctypes.CFUNCTYPE(INTEGER, ctypes.POINTER(HANDLE), ctypes.POINTER(INTEGER), HANDLE)
PROBED = ctypes.CFUNCTYPE(INTEGER, INTEGER, INTEGER, HANDLE, ctypes.POINTER(INTEGER), HANDLE)
STRING = ctypes.CFUNCTYPE(INTEGER, INTEGER, ctypes.POINTER(ctypes.c_char), ctypes.POINTER(INTEGER))
TRUNCATED = 15


class MadeMPI:
    """The five functions, between threads of this process; a communicator's handle is its rank.

    `failing` is the function that returns an error, `deaf` lets no message arrive.
    """

    def __init__(self, failing=None, deaf=False):
        self.failing, self.deaf = failing, deaf
        self.done, self.ends, self.lock = [True], defaultdict(lambda: ([], [])), Lock()
        self.functions = {
            "MPI_Isend": POST(lambda *given: self._post("MPI_Isend", 0, *given)),
            "MPI_Irecv": POST(lambda *given: self._post("MPI_Irecv", 1, *given)),
            "MPI_Test": TEST(self._test),
            "MPI_Iprobe": PROBED(lambda *given: 0),
            "MPI_Error_string": STRING(self._error),
        }

    def _post(self, name, receives, buffer, length, byte, peer, tag, comm, request):
        if name == self.failing:
            return TRUNCATED
        rank = comm or 0
        with self.lock:
            request[0] = len(self.done)
            pair = (peer, rank, tag) if receives else (rank, peer, tag)
            sends, receptions = self.ends[pair]
            (receptions if receives else sends).append((len(self.done), buffer, length))
            self.done.append(False)
            while sends and receptions and not self.deaf:
                (sent, source, bytes_), (got, target, room) = sends.pop(0), receptions.pop(0)
                assert bytes_ == room
                ctypes.memmove(target, source, bytes_)
                self.done[sent] = self.done[got] = True
        return 0

    def _test(self, request, flag, status):
        flag[0] = self.done[request[0]]
        return TRUNCATED if self.failing == "MPI_Test" else 0

    def _error(self, code, text, length):
        words = f"error {code} in words".encode() + b"\0"
        ctypes.memmove(text, words, len(words))
        return 0

    def library(self, rank=0):
        comm, byte = HANDLE(rank), HANDLE(1)
        addresses = {
            name: ctypes.cast(function, HANDLE).value for name, function in self.functions.items()
        }
        return extension.Library(addresses, ctypes.addressof(comm), ctypes.addressof(byte), 20)


def row(operation, slot=0, into=(0, 0), left=(0, 0), right=(0, 0), length=4, peer=0):
    return (operation, slot, peer, 0, *into, *left, *right, length)


def program(rows, mpi=None, slots=2, spaces=3, dtype="float32", op="sum", narrow=None):
    """Return a program on spaces of 64 bytes, and what keeps its memory alive."""
    mpi = mpi or MadeMPI()
    kept = [np.zeros(8) for _ in range(spaces)]
    made = extension.Program(
        mpi.library(),
        np.array(rows, np.int64).reshape(-1),
        slots,
        tuple(space.ctypes.data for space in kept),
        dtype,
        op,
        narrow,
        1.0,
        (4, 2),
    )
    return made, (mpi, kept)


NO_TOUCH = (0, 0, 0, 0, 0, 0, False)


def sampled(call, count, begins=3, ends=3, starts=None, delays=None):
    given = [None if n is None else np.zeros(n) for n in (begins, ends, starts, delays)]
    return extension.sample(call, None, count, *given, NO_TOUCH)


EXCHANGE = [row(COPY), row(RECEIVE, 0), row(SEND, 1), row(WAIT, 0), row(WAIT, 1)]


@built
@pytest.mark.parametrize(("function", "at"), [("MPI_Irecv", 1), ("MPI_Isend", 2), ("MPI_Test", 3)])
@pytest.mark.parametrize("make", [lambda call: call.run(), lambda call: sampled(call, 2)])
def test_every_return_code_is_checked_and_said_with_its_instruction(function, at, make):
    call, kept = program(EXCHANGE, MadeMPI(failing=function))
    with pytest.raises(RuntimeError) as failure:
        make(call)
    assert failure.value.args == (at, f"error {TRUNCATED} in words")
    del kept


@built
@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ([row(-1)], {}),
        ([row(PROBE + 1)], {}),
        ([row(COPY, length=-1)], {}),
        *(([row(COPY, **{place: space})], {})
          for place in ("into", "left", "right") for space in ((-1, 0), (3, 0), (0, -8))),
        *(([row(operation, length=1 << 31)], {}) for operation in (SEND, RECEIVE)),
        *(([row(operation, slot)], {})
          for operation in (SEND, RECEIVE, WAIT, WAIT_REDUCE) for slot in (-1, 2)),
        *(([row(operation)], {"dtype": "float32", "op": "band"})
          for operation in (REDUCE, WAIT_REDUCE)),
        ([row(SCALE)], {"dtype": "int32"}),
        ([row(CONVERT_IN)], {}),
        ([row(CONVERT_OUT)], {"dtype": "float64", "narrow": "float16"}),
        *(([row(operation, **{place: (3, 0)})], {"spaces": 6})
          for operation in (REDUCE, WAIT_REDUCE) for place in ("into", "left", "right")),
        ([row(COPY)[:-1]], {}),
        ([row(COPY)], {"spaces": 0}),
        ([], {"slots": -1}),
        ([], {"spaces": 9}),
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_table_is_refused(rows, given):
    with pytest.raises(ValueError, match="a row of the table is malformed"):
        program(rows, **given)


@built
def test_the_largest_message_of_32_bits_and_unused_kernels_are_accepted():
    program([row(SEND, length=(1 << 31) - 1), row(WAIT)], dtype="bfloat16", op="none")


@built
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 600])
def test_a_reduction_converts_what_is_the_callers(name, count):
    of, rsum, rng = np.dtype(name), OPERATORS["rsum"], np.random.default_rng(count)
    partial = rsum.partial(of)
    values = rng.standard_normal((2, count)).astype(of)
    right = rsum.reduced(of, values)
    for left_space, right_space, into_space in product((0, 3), (1, 4), (2, 5)):
        spaces = [*(converted(v, partial) for v in values), np.zeros(count, partial)]
        spaces += [*values.copy(), np.zeros(count, of)]
        made = extension.Program(
            MadeMPI().library(),
            np.array([row(REDUCE, 0, (into_space, 0), (left_space, 0), (right_space, 0), count)]),
            0,
            tuple(space.ctypes.data for space in spaces),
            partial.name,
            "rsum",
            name,
            1.0,
            (partial.itemsize, of.itemsize),
        )
        made.run()
        assert converted(spaces[into_space], of).tobytes() == right.tobytes()
        assert np.array_equal(spaces[3], values[0])
        assert np.array_equal(spaces[4], values[1])


@built
def test_what_is_no_address_is_refused():
    with pytest.raises(TypeError):
        extension.Program(
            MadeMPI().library(), np.zeros(0, np.int64), 0, ("x",), "int8", "sum", None, 1.0, (1, 0)
        )
    handle = HANDLE()
    with pytest.raises(KeyError, match="no address of MPI_"):
        extension.Library({}, ctypes.addressof(handle), ctypes.addressof(handle), 1)


@built
@pytest.mark.parametrize("short", ["begins", "ends", "starts", "delays"])
def test_sampling_refuses_buffers_that_are_too_short(short):
    call, kept = program([row(COPY)])
    with pytest.raises(ValueError, match="a buffer is too short"):
        sampled(call, 3, **{short: 2})
    sampled(call, 3, **{short: 3})
    del kept


@built
def test_sampling_needs_places_for_its_times():
    call, kept = program([row(COPY)])
    for name in ("begins", "ends"):
        with pytest.raises(ValueError, match="begins and ends are needed"):
            sampled(call, 3, **{name: None})
    del kept


@built
def test_a_call_that_hangs_shows_where():
    mpi = MadeMPI(deaf=True)
    call, kept = program(EXCHANGE, mpi)
    thread = Thread(target=call.run, daemon=True)
    thread.start()
    deadline = monotonic() + 10
    while len(mpi.done) < 3 and monotonic() < deadline:
        sleep(0.001)
    sleep(0.01)
    assert thread.is_alive()
    assert call.at == 3
    mpi.done[:] = [True] * len(mpi.done)
    thread.join(10)
    assert not thread.is_alive()
    assert call.at == 4
    del kept


@built
@pytest.mark.parametrize(
    ("of", "name", "size"), [case for case in CASES if case[2] == 3 or case[:2] == CHOICES[0]]
)
@pytest.mark.parametrize("average", [False, True])
def test_programs_of_all_ranks_run_in_threads_give_what_the_plan_gives(of, name, size, average):
    average = average and "reduce" in of
    plans = plans_of(of, name, size, itemsize=4, average=average, cut=Segmentation(16, 2))
    inputs = inputs_of(plans, np.float32)
    expected = loopback.run(plans, inputs)
    spaces = [spaces_of(p, data, np.float32) for p, data in zip(plans, inputs, strict=True)]
    mpi = MadeMPI()
    operator = OPERATORS["avg" if average else "sum"]
    calls = [
        native.NativePlan(
            SimpleNamespace(
                comm=SimpleNamespace(rank=plan.rank),
                extension=extension,
                library=mpi.library(plan.rank),
            ),
            plan,
            own,
            operator,
        )
        for plan, own in zip(plans, spaces, strict=True)
    ]
    threads = [Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads), [call.position() for call in calls]
    for found, output, plan in zip(results(plans, spaces), expected, plans, strict=True):
        np.testing.assert_array_equal(found, output[: plan.layout.result.count])
    for data, own in zip(inputs, spaces, strict=True):
        assert own[INPUT].tolist() == data[: own[INPUT].size].tolist()
