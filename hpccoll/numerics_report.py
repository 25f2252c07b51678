"""What is asked about the order of summation, and what is found for every number of ranks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from hpccoll import datatypes, vectors
from hpccoll.collectives import ALL, COLLECTIVES, Collective, collective
from hpccoll.datatypes import OPERATORS, SIGNIFICAND, Array
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.numerics import (
    Arithmetic,
    Errors,
    comparable,
    errors,
    evaluate,
    exact,
    in_rank_order,
    share,
    shared_out,
)
from hpccoll.placement import place
from hpccoll.registry import LIBRARY, Choice, Value
from hpccoll.request import algorithms, check_nodes
from hpccoll.spelling import numbers
from hpccoll.summation import Trees, drawn, trees

SUM = OPERATORS["sum"]
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


# What is found


@dataclass(frozen=True, slots=True)
class Figures:
    """What was found of one algorithm on one number of ranks.

    Attributes
    ----------
    parameters, chosen
        The values that run, and the names of those that the model chose.
    depths
        The least and the largest depth of the trees of blocks that have elements.
    as_in_rank_order
        Share of elements with the bits of the sum in the order of the ranks.
    agreed
        Share of elements whose bits all ranks have alike; None where only one rank has each.
    group
        Algorithms with the same number give the same bits in all elements.
    """

    label: str
    parameters: Mapping[str, Value]
    chosen: tuple[str, ...]
    depths: tuple[int, int]
    errors: Errors
    as_in_rank_order: float
    agreed: float | None
    group: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found on one number of ranks.

    Attributes
    ----------
    equal
        By two groups: the share of elements with equal bits, on the lowest rank where ranks differ.
    without_sum
        Elements without an exact sum: inputs aren't finite, or the sum is beyond float64.
    skipped
        Why algorithms aren't here, by label.
    """

    size: int
    figures: tuple[Figures, ...]
    equal: Mapping[tuple[int, int], float]
    without_sum: int
    skipped: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Across:
    """Whether one algorithm gives the same bits on several numbers of ranks, for the same data."""

    label: str
    sizes: tuple[int, ...]
    equal: float


@dataclass(slots=True)
class Report:
    """Everything that was found; `across` is empty for a single number of ranks."""

    request: Request
    outcomes: list[Outcome] = field(default_factory=list)
    across: list[Across] = field(default_factory=list)

    @property
    def exceeded(self) -> list[str]:
        """Return, in words, where a bound is exceeded."""
        return [
            f"{figures.label} on {outcome.size} ranks"
            for outcome in self.outcomes
            for figures in outcome.figures
            if (figures.errors.of_bound or 0) > 1
        ]


def run(request: Request) -> Report:
    """Find out everything that was asked.

    Raises
    ------
    UnsupportedError
        An algorithm that was asked for by name is defined for none of the numbers of ranks.
    VerificationError
        A schedule is wrong.
    """
    report = Report(request)
    leaves = request.made(request.sizes[-1]) if len(request.sizes) > 1 else None
    common: dict[str, dict[int, Array]] = {choice.label: {} for choice in request.choices}
    for size in request.sizes:
        able, skipped = request.supported(size)
        planted = [(choice, request.trees(choice, size)) for choice in able]
        report.outcomes.append(_outcome(request, size, planted, skipped))
        if leaves is not None:
            inputs = shared_out(leaves, size, request.arithmetic)
            for choice, of in planted:
                sums = evaluate(of, inputs, SUM, request.arithmetic.wide)
                common[choice.label][size] = comparable(sums.values[0])
    report.across = [
        Across(label, tuple(rows), share(np.all(np.stack([*rows.values()]) == rows[min(rows)], 0)))
        for label, rows in common.items()
        if len(rows) > 1
    ]
    return report


def _outcome(
    request: Request,
    size: int,
    planted: Iterable[tuple[Choice, Trees]],
    skipped: Mapping[str, str],
) -> Outcome:
    arithmetic, inputs = request.arithmetic, request.made(size)
    sums_of_all, serial = exact(inputs), comparable(in_rank_order(inputs, SUM, arithmetic))
    groups: dict[bytes, int] = {}
    rows: dict[int, Array] = {}
    figures = []
    for choice, of in planted:
        sums = evaluate(of, inputs, SUM, arithmetic.wide)
        own = comparable(sums.values)
        alike = np.all(own == own[0], axis=0)
        key = (own[:1] if alike.all() else own).tobytes()
        group = groups.setdefault(key, len(groups) + 1)
        rows.setdefault(group, own[0])
        depths = [of.depth(block) for block in range(len(of.results))]
        filled = [d for block, d in enumerate(depths) if sums.partition.size(block)]
        figures.append(
            Figures(
                choice.label,
                of.choice.values,
                tuple(name for name in of.choice.parameters if name not in choice.parameters),
                (min(filled), max(filled)),
                errors(sums, depths, sums_of_all, arithmetic),
                share(own[0] == serial),
                share(alike) if request.collective.name == "allreduce" else None,
                group,
            )
        )
    equal = {(a, b): share(rows[a] == rows[b]) for a, b in combinations(rows, 2)}
    unknown = int((~sums_of_all.known).sum())
    return Outcome(size, tuple(figures), equal, unknown, skipped)


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
