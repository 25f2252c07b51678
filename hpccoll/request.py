"""What a benchmark is asked to measure, checked before MPI starts."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hpccoll import datatypes
from hpccoll.arrival import Arrival
from hpccoll.choice import Choice
from hpccoll.collectives import Collective
from hpccoll.cost import ASSUMED, Machine
from hpccoll.datatypes import Operator
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.irregular import Shares
from hpccoll.layout import Message, check_message
from hpccoll.library_choice import LibraryChoice
from hpccoll.placement import Placement, place
from hpccoll.registry import catalogue
from hpccoll.reproducible import TERMS
from hpccoll.segmentation import Segmentation


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
    measured_pieces
        The segmentation gets the pieces that are found fastest when the run starts.
    shares
        Which part of a vector each rank has.
    nodes
        What ``--nodes`` says about the placement of the ranks, None for the real one.
    placement
        The placement that follows, once the number of ranks is known.
    machine
        What the model that chooses parameters is told, once it is measured.
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
    measured_pieces: bool = False
    shares: Shares = field(default_factory=Shares)
    nodes: str | None = None
    placement: Placement | None = None
    forced: tuple[LibraryChoice, ...] = ()
    machine: Machine = ASSUMED

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

    def check_ranks(self, size: int) -> None:
        """Check that `size` ranks can be asked for this, whatever memory they have.

        Raises
        ------
        UsageError
            A root, late rank, operator or algorithm doesn't fit the number of ranks, or a size
            can't be exchanged in place.
        """
        self.arrival.check(size)
        self.check_terms(size)
        self.supported(size)
        self.shares.check(size)
        self.roots(size)
        for one in self.sizes:
            check_message(self.collective, size, self.message(one, 0, size))

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
