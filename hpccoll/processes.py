"""Independent work in several processes, with its results in order."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import Synchronized
from signal import SIG_IGN, SIGINT, signal
from typing import Any, TypeVar

from hpccoll.errors import WorkerError

Result = TypeVar("Result")


def each(work: Callable[[int], Result], count: int, jobs: int) -> Iterator[Result]:
    """Yield ``work(0)``, ``work(1)``, … up to ``work(count - 1)``, made by `jobs` processes.

    The processes are forked when the first result is asked for: they know all that this one knows,
    and only results are sent. They end with the iterator, however that ends.

    Raises
    ------
    WorkerError
        A process was ended from outside.

    What `work` raises is raised here, too.
    """
    if min(jobs, count) < 2:
        yield from map(work, range(count))
        return
    context = get_context("fork")
    following = context.Value("l", 0)
    with ExitStack() as ending:
        receivers = []
        for _ in range(min(jobs, count)):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(
                target=_serve, args=(work, count, following, sender), daemon=True
            )
            process.start()
            ending.callback(process.join)
            ending.callback(process.terminate)
            sender.close()  # only the process itself has it open, so that its end is seen
            receivers.append(receiver)
        yield from _in_order(receivers, count)


def _serve(
    work: Callable[[int], object],
    count: int,
    following: "Synchronized[int]",
    sender: "Connection[Any, Any]",
) -> None:
    """Do, in a process of its own, whatever nobody has begun, and send the results."""
    signal(SIGINT, SIG_IGN)  # Ctrl-C reaches all: the process that waits for them ends the others
    parent = parent_process()
    while parent and parent.is_alive():
        with following.get_lock():
            number, following.value = following.value, following.value + 1
        if number >= count:
            sender.send(None)
            return
        try:
            sender.send((number, work(number), None))
        except Exception as error:
            sender.send((number, None, error))
            return


def _in_order(receivers: "list[Connection[Any, Any]]", count: int) -> Iterator[Any]:
    done: dict[int, Any] = {}
    for number in range(count):
        while number not in done:
            for receiver in wait(receivers):
                assert isinstance(receiver, Connection)
                if (received := _received(receiver)) is None:
                    receivers.remove(receiver)
                    continue
                finished, done[finished], error = received
                if error is not None:
                    raise error
        yield done.pop(number)


def _received(receiver: "Connection[Any, Any]") -> tuple[int, Any, Exception | None] | None:
    try:
        received: tuple[int, Any, Exception | None] | None = receiver.recv()
    except EOFError:
        raise WorkerError(
            "a process was ended from outside, perhaps for want of memory; use fewer --jobs"
        ) from None
    return received
