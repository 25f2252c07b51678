"""What a benchmark is asked to measure, checked before MPI starts."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hpccoll import datatypes, irregular
from hpccoll.arrival import Arrival
from hpccoll.arrival import parse as parse_arrival
from hpccoll.bind import Segmentation
from hpccoll.collectives import Collective, collective
from hpccoll.datatypes import Operator
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.irregular import Shares
from hpccoll.layout import Message
from hpccoll.library_choice import PREFIX, LibraryChoice, library_choices
from hpccoll.placement import Placement, place
from hpccoll.placement import check as check_nodes
from hpccoll.registry import LIBRARY, Choice, catalogue
from hpccoll.reproducible import TERMS
from hpccoll.spelling import choose
from hpccoll.units import format_size, parse_size

ALL = "all"


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure.

    Attributes
    ----------
    choices
        Algorithms with their parameters.
    every
        The choices are the whole catalogue: those that this number of ranks doesn't allow are
        skipped with the reason. Otherwise they are an error.
    forced
        Algorithms of the MPI library, as they were written.
    sizes
        Bytes of the full vector, multiples of the element size, ascending.
    root
        One root, or None for every rank in turn.
    repetitions, min_repetitions
        Timed calls of each algorithm, at most and at least.
    target_ci
        The half-width of the median's 95 % interval, as a share of the median, that ends them.
    time_budget
        Seconds for all algorithms of one size and root together, checks left out.
    timeout
        Seconds after which a call counts as hung.
    sync
        How ranks begin a call: after a ``barrier``, in a ``window`` that starts at an agreed time,
        or ``none``: back to back.
    touch
        Between calls each rank rewrites its input and reads its result, as an application does.
    cold
        Between calls the caches are filled with something else.
    accumulate
        Whether partial results of 16-bit floats have the type itself (``storage``) or ``float32``.
    per_rank
        Note which rank is the last.
    shares
        Which part of a vector each rank has.
    nodes
        What ``--nodes`` says about the placement of the ranks, None for the real one.
    placement
        The placement that follows, once the number of ranks is known.
    """

    collective: Collective
    choices: tuple[Choice, ...]
    every: bool
    library: bool
    sizes: tuple[int, ...]
    dtype: np.dtype[Any]
    operator: Operator
    root: int | None
    in_place: bool
    repetitions: int
    warmup: int
    time_budget: float
    seed: int
    check: bool
    timeout: float
    min_repetitions: int = 10
    target_ci: float = 0.02
    engine: str = "auto"
    sync: str = "barrier"
    touch: bool = True
    cold: bool = False
    arrival: Arrival = field(default_factory=Arrival)
    accumulate: str = "storage"
    per_rank: bool = False
    keep_samples: bool = False
    segmentation: Segmentation = field(default_factory=Segmentation)
    shares: Shares = field(default_factory=Shares)
    nodes: str | None = None
    placement: Placement | None = None
    forced: tuple[LibraryChoice, ...] = ()

    def placed(self, real: Placement) -> "Request":
        """Return the request for ranks that are placed so, or as ``--nodes`` says.

        Raises
        ------
        UsageError
            ``--nodes`` doesn't fit the number of ranks.
        """
        nodes = place(self.nodes, real.size) if self.nodes else real
        choices = tuple(choice.on(nodes) for choice in self.choices)
        return replace(self, choices=choices, placement=nodes)

    def roots(self, size: int) -> range:
        """Return the roots to measure on `size` ranks.

        Raises
        ------
        UsageError
            The root isn't one of the ranks, or the collective has none.
        """
        if not self.collective.rooted:
            return range(1)
        if self.root is None:
            return range(size)
        if self.root >= size:
            raise UsageError(
                f"--root {self.root} is out of range: {size} ranks are numbered 0 to {size - 1}"
            )
        return range(self.root, self.root + 1)

    def check_terms(self, size: int) -> None:
        """Raise `UsageError` if `size` ranks are more than a reproducible sum can have terms."""
        if len(self.operators) > 1 and size > TERMS:
            raise UsageError(
                f"{self.operator.name} adds up at most {TERMS} ranks, got {size}; "
                f"use --op {self.operator.plain}"
            )

    def supported(self, size: int) -> tuple[tuple[Choice, ...], dict[str, str]]:
        """Return the choices that `size` ranks allow, and why the others are skipped.

        Raises
        ------
        UnsupportedError
            An algorithm that was asked for by name isn't defined for `size` ranks.
        """
        able, reasons = [], {}
        for choice in self.choices:
            try:
                choice.check(size)
                self._check_order(choice)
                self._check_levels(choice, size)
            except UnsupportedError as error:
                if not self.every:
                    raise
                reasons[choice.label] = str(error)
            else:
                able.append(choice)
        return tuple(able), reasons

    def _check_order(self, choice: Choice) -> None:
        """Raise `UnsupportedError` if the algorithm needs a commutative operator in vain."""
        if not self.ordered or not choice.algorithm.commutative:
            return
        able = [a.name for a in catalogue(self.collective.name) if not a.commutative]
        raise UnsupportedError(
            f"{choice.algorithm.name} reduces in another order than that of the ranks, and "
            f"{self.operator.name} isn't commutative; use --algorithm {' or '.join(able)}"
        )

    def _check_levels(self, choice: Choice, size: int) -> None:
        """Raise `UnsupportedError` if two levels are one here, and weren't asked for by name."""
        if not (self.every and choice.algorithm.placed):
            return
        nodes = choice.placement(size)
        if nodes.flat:
            raise UnsupportedError(
                f"{choice.label} needs several nodes with several ranks, got {size} on "
                f"{nodes.count} node{'s' * (nodes.count > 1)}; use --nodes 2, or name it with "
                "--algorithm"
            )

    def message(self, size: int, root: int, ranks: int) -> Message:
        """Return what the collective is called with for `size` bytes on `ranks` ranks."""
        count = size // self.dtype.itemsize
        return Message(
            count,
            self.dtype.itemsize,
            root,
            self.in_place,
            average=self.collective.reduces and self.operator.average,
            ordered=self.ordered,
            counts=self.shares.counts(self.collective, count, ranks),
        )

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Return what every algorithm runs: the operator, and the plain one it is compared with."""
        if not (self.collective.reduces and self.operator.plain):
            return (self.operator,)
        return self.operator, datatypes.operator(self.operator.plain)

    @property
    def baseline(self) -> str:
        """Return in words what every algorithm is compared with."""
        *_, plain = self.operators
        if plain is self.operator:
            return self.collective.baselines
        return f"the same algorithm with {plain.name}"

    def label(self, choice: Choice, operator: Operator) -> str:
        """Return the label of an algorithm that runs one of the operators."""
        return choice.label if operator is self.operator else f"plain {choice.label}"

    def partial(self, operator: Operator) -> np.dtype[Any]:
        """Return the type of partial results."""
        if not self.collective.reduces:
            return self.dtype
        wide = self.accumulate == "float32"
        return np.dtype(np.float32) if wide else operator.partial(self.dtype)

    @property
    def ordered(self) -> bool:
        """Tell whether operands must be kept in the order of the ranks."""
        return self.collective.reduces and not self.operator.commutative


def algorithms(of: Collective, text: str) -> tuple[tuple[Choice, ...], bool]:
    """Return the own choices that ``--algorithm`` spells, and whether they are the catalogue."""
    names = [name for name in _names(text) if name != LIBRARY and not name.startswith(PREFIX)]
    if names == [ALL]:
        return tuple(Choice(entry) for entry in catalogue(of.name)), True
    choices = [choice for name in names for choice in choose(of.name, name)]
    return tuple({choice.label: choice for choice in choices}.values()), False


def forced(text: str) -> tuple[LibraryChoice, ...]:
    """Return the library's own algorithms that ``--algorithm`` spells."""
    names = [name for name in _names(text) if name.startswith(PREFIX)]
    choices = [choice for name in names for choice in library_choices(name)]
    return tuple({choice.label: choice for choice in choices}.values())


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def sizes(
    given: str | None,
    least: str | None,
    most: str | None,
    factor: int | None,
    dtype: np.dtype[Any],
) -> tuple[int, ...]:
    """Return the sizes that ``--sizes``, or else ``-b``, ``-e`` and ``-f``, spell.

    Raises
    ------
    UsageError
        Both are given, a size can't be read or isn't a multiple of the element size, or the
        smallest is above the largest.
    """
    if given is not None:
        if (least, most, factor) != (None, None, None):
            raise UsageError("give either --sizes or --min-bytes, --max-bytes and --factor")
        found = sorted({parse_size(size) for size in given.split(",")})
    else:
        low = parse_size("8" if least is None else least)
        high = parse_size("16MiB" if most is None else most)
        found = _series(low, high, factor or 2, dtype)
    for size in found:
        if size % dtype.itemsize:
            near = size // dtype.itemsize * dtype.itemsize
            raise UsageError(
                f"a size of {format_size(size)} isn't a whole number of {dtype.name} elements "
                f"({dtype.itemsize} B each); use {near} or {near + dtype.itemsize}"
            )
    return tuple(found)


def _series(least: int, most: int, factor: int, dtype: np.dtype[Any]) -> list[int]:
    if least > most:
        raise UsageError(
            f"--min-bytes {format_size(least)} is above --max-bytes {format_size(most)}; "
            "give a larger --max-bytes"
        )
    found = [least]
    while (following := found[-1] * factor or dtype.itemsize) <= most:
        found.append(following)
    return found


def root(text: str, of: Collective) -> int | None:
    """Return the root that ``--root`` spells, None for all."""
    if text == ALL:
        return None
    if not text.isdecimal():
        raise UsageError(f"--root takes a rank or 'all', got {text!r}")
    if int(text) and not of.rooted:
        raise UsageError(f"{of.name} has no root; leave out --root {text}")
    return int(text)


def build(
    name: str,
    *,
    algorithm: str,
    no_library: bool,
    min_bytes: str | None,
    max_bytes: str | None,
    factor: int | None,
    size_list: str | None,
    dtype: str | None,
    op: str,
    root_text: str,
    no_check: bool,
    arrival: str = "none",
    segment: str | None = None,
    window: int = 2,
    counts: str = "equal",
    nodes: str | None = None,
    **rest: Any,
) -> Request:
    """Return the request that the command line spells.

    Raises
    ------
    UsageError
        Some value is unknown, can't be read, or doesn't fit the others.
    """
    of = collective(name)
    choices, every = algorithms(of, algorithm)
    if no_library and LIBRARY in _names(algorithm):
        raise UsageError("--no-library leaves out the library that --algorithm names")
    if nodes is not None:
        _check_nodes(nodes, choices)
    element = datatypes.dtype(dtype or default_type(op if of.reduces else "sum"))
    if rest.get("in_place") and not of.moves_data:
        raise UsageError(f"{of.name} has no buffers; leave out --in-place")
    if rest.get("accumulate") == "float32" and element.name not in ("float16", "bfloat16"):
        raise UsageError(
            f"--accumulate float32 is for float16 and bfloat16, not for {element.name}"
        )
    if rest.get("accumulate") == "float32" and not of.reduces:
        raise UsageError(f"--accumulate is for reductions; {of.name} reduces nothing")
    return Request(
        collective=of,
        choices=choices,
        every=every,
        library=not no_library,
        sizes=_sizes(of, (size_list, min_bytes, max_bytes, factor), element),
        dtype=element,
        operator=_operator(of, op, element),
        root=root(root_text, of),
        check=not no_check,
        arrival=parse_arrival(arrival),
        segmentation=_segmentation(segment, window),
        shares=irregular.parse(counts, of),
        nodes=nodes,
        forced=forced(algorithm),
        **rest,
    )


def _check_nodes(nodes: str, choices: tuple[Choice, ...]) -> None:
    check_nodes(nodes)
    if not any(choice.algorithm.placed for choice in choices):
        names = sorted({entry.name for entry in catalogue() if entry.placed})
        raise UsageError(f"--nodes is for {' and '.join(names)}, none of which is measured")


def default_type(op: str) -> str:
    """Return the element type where none is given: the operator's only one, or float32."""
    return (*datatypes.operator(op).only, "float32")[0]


def _sizes(
    of: Collective,
    given: tuple[str | None, str | None, str | None, int | None],
    element: np.dtype[Any],
) -> tuple[int, ...]:
    if of.moves_data:
        return sizes(*given, element)
    if given != (None, None, None, None):
        raise UsageError(f"{of.name} moves no data; leave out the sizes")
    return (0,)


def _operator(of: Collective, op: str, element: np.dtype[Any]) -> Operator:
    if not of.reduces:
        return datatypes.operator(op)
    found = datatypes.operator_for(op, element)
    if found.average and not of.averages:
        raise UsageError(f"{of.name} has no average: not all ranks contribute; use --op sum")
    return found


def _segmentation(segment: str | None, window: int) -> Segmentation:
    if segment is None:
        return Segmentation(window=window)
    length = parse_size(segment)
    if length < 1:
        raise UsageError("--segment must be at least one byte")
    return Segmentation(length, window)
