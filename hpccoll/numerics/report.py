"""What is found about the order of summation, for every number of ranks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from hpccoll.choice import Choice
from hpccoll.datatypes import OPERATORS, Array
from hpccoll.numerics.bits import (
    Errors,
    Exact,
    comparable,
    errors,
    evaluate,
    exact,
    in_rank_order,
    share,
    shared_out,
)
from hpccoll.numerics.request import Request
from hpccoll.parameter import Value

SUM = OPERATORS["sum"]


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


@dataclass(frozen=True, slots=True)
class _Data:
    """What all algorithms are given on one number of ranks, and what they are compared with.

    Attributes
    ----------
    inputs
        A vector per rank.
    in_order
        Bits of the sum in the order of the ranks.
    shared
        The inputs if the data are the same for all numbers of ranks; None for a single number.
    """

    size: int
    inputs: Array
    exact: Exact
    in_order: Array
    shared: Array | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of one algorithm; `figures` have no group yet.

    Attributes
    ----------
    bits
        Of every variant that ranks hold, or of one if all are the same.
    shared
        Bits of the lowest rank's result, of the shared data.
    """

    figures: Figures
    bits: Array
    shared: Array | None


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
        data = _data(request, size, leaves)
        found = [_examined(request, choice, data) for choice in able]
        report.outcomes.append(_outcome(data, found, skipped))
        for one in found:
            if one.shared is not None:
                common[one.figures.label][size] = one.shared
    report.across = [
        Across(label, tuple(rows), share(np.all(np.stack([*rows.values()]) == rows[min(rows)], 0)))
        for label, rows in common.items()
        if len(rows) > 1
    ]
    return report


def _data(request: Request, size: int, leaves: Array | None) -> _Data:
    inputs, arithmetic = request.made(size), request.arithmetic
    return _Data(
        size,
        inputs,
        exact(inputs),
        comparable(in_rank_order(inputs, SUM, arithmetic)),
        None if leaves is None else shared_out(leaves, size, arithmetic),
    )


def _examined(request: Request, choice: Choice, data: _Data) -> _Found:
    of, wide = request.trees(choice, data.size), request.arithmetic.wide
    sums = evaluate(of, data.inputs, SUM, wide)
    bits = comparable(sums.values)
    alike = np.all(bits == bits[0], axis=0)
    depths = [of.depth(block) for block in range(len(of.results))]
    filled = [depth for block, depth in enumerate(depths) if sums.partition.size(block)]
    figures = Figures(
        choice.label,
        of.choice.values,
        tuple(name for name in of.choice.parameters if name not in choice.parameters),
        (min(filled), max(filled)),
        errors(sums, depths, data.exact, request.arithmetic),
        share(bits[0] == data.in_order),
        share(alike) if request.collective.name == "allreduce" else None,
        group=0,
    )
    again = None
    if data.shared is not None:
        again = comparable(evaluate(of, data.shared, SUM, wide).values[0])
    return _Found(figures, bits[:1] if alike.all() else bits, again)


def _outcome(data: _Data, found: Iterable[_Found], skipped: Mapping[str, str]) -> Outcome:
    groups: dict[bytes, int] = {}
    rows: dict[int, Array] = {}
    figures = []
    for one in found:
        group = groups.setdefault(one.bits.tobytes(), len(groups) + 1)
        rows.setdefault(group, one.bits[0])
        figures.append(replace(one.figures, group=group))
    equal = {(a, b): share(rows[a] == rows[b]) for a, b in combinations(rows, 2)}
    without_sum = int((~data.exact.known).sum())
    return Outcome(data.size, tuple(figures), equal, without_sum, skipped)
