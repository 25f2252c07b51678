"""Buffers of one measurement, planned before they are allocated."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.errors import UsageError
from hpccoll.layout import Layout
from hpccoll.units import format_size

if TYPE_CHECKING:
    from hpccoll.world import World

SHARE = 0.9
"""The part of the available memory that may be used."""


def allocate(place: Layout, scratch: int, dtype: np.dtype[Any]) -> list[Array]:
    """Return the input, output and scratch spaces, every page of them touched."""
    return [touched(count, dtype) for count in (place.input, place.output, scratch)]


def touched(count: int, dtype: np.dtype[Any]) -> Array:
    """Return a new array, every page of it touched."""
    return np.full(count, 0, dtype)


def working(
    user: Sequence[Array],
    place: Layout,
    scratch: int,
    landing: int,
    partial: np.dtype[Any],
    array: Callable[[int, np.dtype[Any]], Array] = touched,
) -> list[Array]:
    """Return all spaces of a plan whose partial results have a type, the caller's or another.

    Parameters
    ----------
    array
        Makes those that aren't the caller's.
    """
    if partial == user[0].dtype:
        return [*user, array(scratch, partial)]
    own = [array(count, partial) for count in (place.input, place.output, scratch)]
    return [*own, *user, array(landing, user[0].dtype)]


def available() -> int:
    """Return the bytes of memory that this node has left for new allocations."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    return min([free, *_control_group_limits()])


def _control_group_limits() -> Iterable[int]:
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            yield int(Path(limit).read_text()) - int(Path(usage).read_text())
        except (OSError, ValueError):
            continue


def check_memory(
    world: "World", need: int, what: str, smaller: str = "a smaller --max-bytes"
) -> None:
    """Check on every node that its ranks together can allocate what they need.

    Parameters
    ----------
    need
        Bytes that this rank needs.
    what
        What needs them, in words.
    smaller
        What would need less, in words.

    Raises
    ------
    UsageError
        On every rank alike, if any node lacks memory.
    """
    needed = world.node.allreduce(need)
    free = int(available() * SHARE)
    verdict = None
    if needed > free:
        verdict = (
            f"{what} needs {format_gib(needed)} of memory on {os.uname().nodename} for "
            f"{world.node.size} ranks, and {format_gib(free)} can be had; "
            f"use {smaller} or fewer ranks per node"
        )
    problems = [problem for problem in world.comm.allgather(verdict) if problem]
    if problems:
        raise UsageError(problems[0])


def format_gib(size: int) -> str:
    """Return a size in GiB, or exactly where it is small."""
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else format_size(size)
