"""What is asked about the order of summation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpccoll import datatypes
from hpccoll.choice import Choice
from hpccoll.collectives import ALL, COLLECTIVES, Collective, collective
from hpccoll.datatypes import SIGNIFICAND, Array
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.numerics import vectors
from hpccoll.numerics.bits import Arithmetic
from hpccoll.parsing import algorithms, check_nodes
from hpccoll.placement import place
from hpccoll.registry import LIBRARY
from hpccoll.spelling import numbers
from hpccoll.summation import Trees, drawn, trees

COUNT = 4096
"""Elements of a vector where neither ``--count`` nor a file says it."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to find out.

    Attributes
    ----------
    every
        The choices are the whole catalogue: those that no number of ranks allows are skipped.
    sizes
        Numbers of ranks, ascending.
    inputs
        A kind of `hpccoll.vectors`, or a file.
    nodes
        What ``--nodes`` says, None for two nodes.
    """

    collective: Collective
    choices: tuple[Choice, ...]
    every: bool
    sizes: tuple[int, ...]
    arithmetic: Arithmetic
    count: int
    inputs: str
    root: int
    seed: int
    nodes: str | None

    def supported(self, size: int) -> tuple[list[Choice], dict[str, str]]:
        """Return the choices that `size` ranks allow, and why the others are skipped.

        Raises
        ------
        UnsupportedError
            An algorithm that was asked for by name is defined for none of the numbers of ranks.
        """
        able, reasons = [], {}
        for choice in self.choices:
            placed = choice.on(place(self.nodes, size)) if self.nodes else choice
            try:
                placed.check(size)
            except UnsupportedError as error:
                if not self.every and not any(map(choice.supports, self.sizes)):
                    raise
                reasons[choice.label] = str(error)
            else:
                able.append(placed)
        return able, reasons

    def trees(self, choice: Choice, size: int) -> Trees:
        """Return a choice's trees, with the parameters that the model chooses for the vector."""
        length = self.count * self.arithmetic.storage.itemsize
        return trees(choice.resolved(size, length), size, self.root)

    def made(self, size: int) -> Array:
        """Return the vectors of `size` ranks."""
        return vectors.make(self.inputs, size, self.count, self.seed, self.arithmetic.storage)


def build(
    name: str,
    *,
    algorithm: str,
    ranks: str,
    dtype: str,
    accumulate: str,
    count: int | None,
    inputs: str,
    root: int,
    seed: int,
    nodes: str | None,
) -> Request:
    """Return the request that the command line spells.

    Raises
    ------
    UsageError
        Some value is unknown, can't be read, or doesn't fit the others.
    """
    of = collective(name)
    if of.contributors != ALL:
        able = [c.name for c in COLLECTIVES.values() if c.contributors == ALL]
        raise UsageError(f"numerics is for {', '.join(able)}, whose results are sums of all ranks")
    choices, every = _choices(of, algorithm, nodes)
    found = sizes(ranks)
    _check_root(root, of, found)
    vectors.check(inputs)
    return Request(
        collective=of,
        choices=choices,
        every=every,
        sizes=found,
        arithmetic=_arithmetic(dtype, accumulate),
        count=_count(inputs, count, found[-1]),
        inputs=inputs,
        root=root,
        seed=seed,
        nodes=nodes,
    )


def _choices(of: Collective, text: str, nodes: str | None) -> tuple[tuple[Choice, ...], bool]:
    choices, every = algorithms(of, text)
    if not every and any(name.strip().split(":")[0] == LIBRARY for name in text.split(",")):
        raise UsageError(
            f"--algorithm {text}: only hpccoll's own algorithms have known trees, not the library's"
        )
    if nodes is not None:
        check_nodes(nodes, choices)
    return choices, every


def sizes(text: str) -> tuple[int, ...]:
    """Return the numbers of ranks that ``8``, ``4,8``, ``2..16`` or ``2..64*2`` spell.

    Raises
    ------
    UsageError
        It can't be read, or a number is below 1.
    """
    found = {size for part in text.split(",") for size in numbers(part, f"--ranks {text}")}
    whole = sorted(size for size in found if isinstance(size, int))
    if len(whole) < len(found) or whole[0] < 1:
        raise UsageError(f"--ranks takes 8, 4,8, 2..16 or 2..64*2, from 1 on, got {text!r}")
    return tuple(whole)


def _check_root(root: int, of: Collective, sizes: Sequence[int]) -> None:
    if root and not of.rooted:
        raise UsageError(f"{of.name} has no root; leave out --root {root}")
    if root >= sizes[0]:
        raise UsageError(
            f"--root {root} is out of range: {sizes[0]} ranks are numbered 0 to {sizes[0] - 1}"
        )


def _arithmetic(name: str, accumulate: str) -> Arithmetic:
    storage = datatypes.dtype(name)
    if name not in SIGNIFICAND:
        raise UsageError(
            f"numerics is about rounding: use --dtype {', '.join(SIGNIFICAND)}, not {name}"
        )
    if accumulate == "storage":
        return Arithmetic(storage, storage)
    if storage.itemsize > 2:
        raise UsageError(f"--accumulate float32 is for float16 and bfloat16, not for {name}")
    return Arithmetic(storage, np.dtype(np.float32))


def _count(inputs: str, count: int | None, most: int) -> int:
    """Return the elements of a vector; a file says them itself and must have a row per rank."""
    if not inputs.endswith(vectors.SUFFIX):
        return count or COUNT
    rows, columns = vectors.read(inputs).shape
    if rows != most:
        raise UsageError(
            f"{inputs} has {rows} rows, but the largest number of ranks is {most}; "
            f"use --ranks {rows}"
        )
    if count not in (None, columns):
        raise UsageError(f"{inputs} has {columns} columns; leave out --count {count}")
    return int(columns)


def draw(request: Request) -> str:
    """Return the trees of everything that was asked, and what is skipped, in words.

    Raises
    ------
    UnsupportedError
        An algorithm isn't defined for the numbers of ranks, or there are too many ranks to be read.
    """
    pieces = []
    for size in request.sizes:
        able, skipped = request.supported(size)
        pieces += [drawn(request.trees(choice, size)) for choice in able]
        pieces += [f"skipped {label}: {reason}" for label, reason in skipped.items()]
    return "\n\n".join(pieces)
