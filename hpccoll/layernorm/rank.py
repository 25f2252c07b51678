"""One rank's part in an order of operations: what it allocates, calls and computes.

An order is told to a `Rank` once, step by step; the `Program` that this leaves repeats it on the
same buffers as often as it is called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpccoll.choice import Choice
from hpccoll.clock import now
from hpccoll.datatypes import Array
from hpccoll.engines.call import Call
from hpccoll.errors import UnsupportedError
from hpccoll.layernorm.communication import SUM, Bound, Communication
from hpccoll.layernorm.norms import Norm, add_to, normalize
from hpccoll.layernorm.program import COMMUNICATION, NORM, REST, Buffers, Program, Step
from hpccoll.partition import Partition

OPERATIONS = {"layernorm": 7, "rmsnorm": 4}
"""Operations per element: sum, subtract, square and add, times the reciprocal root, gamma, beta;
RMSNorm has no mean and no beta."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How rows or columns are divided among the ranks.

    Attributes
    ----------
    part
        Those of this rank.
    shape
        Shape of its share.
    elements
        Elements of every rank's share.
    """

    part: slice
    shape: tuple[int, int]
    elements: tuple[int, ...]
    borders: tuple[int, ...]


class Rank:
    """What one rank can do; each method adds a step to the program.

    Attributes
    ----------
    x, y
        The rank's part of the sum and its result, shape (T, H).

    Parameters
    ----------
    fixed
        Algorithms of collectives that belong to the order by definition.
    segments
        Into how many the fused order cuts the rows.
    """

    def __init__(
        self,
        communication: Communication,
        norm: Norm,
        buffers: Buffers,
        fixed: dict[str, Choice],
        segments: int = 1,
    ) -> None:
        self._communication = communication
        self.norm, self.buffers = norm, buffers
        self._fixed, self._segments = fixed, segments
        self.x, self.y = buffers.x, buffers.y
        self.number, self.size = communication.rank, communication.size
        self.program = Program()

    @property
    def is_root(self) -> bool:
        """Tell whether this is rank 0, the root of all rooted collectives."""
        return self.number == 0

    @property
    def rows(self) -> Shares:
        """Return how the tokens are divided."""
        return self._shares(0)

    @property
    def columns(self) -> Shares:
        """Return how the hidden dimension is divided."""
        return self._shares(1)

    def _shares(self, axis: int) -> Shares:
        whole, other = self.x.shape[axis], self.x.shape[1 - axis]
        cut = Partition(whole, self.size)
        borders = tuple(map(cut.border, range(self.size + 1)))
        own = cut.size(self.number)
        return Shares(
            slice(borders[self.number], borders[self.number + 1]),
            (own, other) if axis == 0 else (other, own),
            tuple(cut.size(r) * other for r in range(self.size)),
            borders,
        )

    # Memory and communication

    def array(self, *shape: int, of: "np.dtype[Any] | None" = None) -> Array:
        """Take an array of the storage type or another; what it holds is left from other orders."""
        made = self._communication.workspace.array(shape, of or self.x.dtype)
        self.program.extra += made.nbytes
        return made

    def collective(
        self,
        name: str,
        source: Array | None,
        target: Array,
        *,
        counts: Sequence[int] | None = None,
        in_place: bool = False,
        average: bool = False,
    ) -> None:
        """Call a collective with root 0; see `Communication.bind`."""
        self._communicate(
            self._communication.bind(
                name,
                source,
                target,
                counts=counts,
                in_place=in_place,
                average=average,
                choice=self._fixed.get(name),
            )
        )

    def _communicate(self, bound: Bound) -> None:
        self.program.bound.append(bound)
        self.program.extra += bound.extra
        self.step(COMMUNICATION, bound.call, bound.call)

    def reduce_normalize_bcast(self) -> None:
        """Reduce along a chain to the root, which normalises every segment and sends it back."""
        if not self._communication.own:
            raise UnsupportedError("the library can't be made to do something between two segments")
        spent = self.program.spent
        self._need_residual(slice(None), slice(None), self.is_root)

        def between(rows: Array, first: int) -> None:
            begin = now()
            part = slice(first, first + len(rows))
            self._add(rows, self._additions(part, slice(None)))
            self._normalize(rows, slice(None))
            # The call that it is a part of counts as communication.
            elapsed = now() - begin
            spent[NORM] += elapsed
            spent[COMMUNICATION] -= elapsed

        self._communicate(self._communication.fused(self.x, self.y, self._segments, between))
        if self.size == 1:  # nothing is sent, so nothing was done before sending
            self.add(self.y)
            self.normalize(self.y)
        elif self.is_root:
            self.count(self.x.size)

    # Computing

    def add(self, rows: Array, part: slice = slice(None), columns: slice = slice(None)) -> None:
        """Add bias and residual to rows: those of all tokens and channels that are named."""
        terms = self._additions(part, columns)
        self._need_residual(part, columns)
        if terms:
            self.step(REST, lambda: self._add(rows, terms))

    def add_bias(self, rows: Array) -> None:
        """Add the bias alone."""
        self._add_one(rows, self.buffers.bias)

    def add_residual(self, rows: Array) -> None:
        """Add the residual alone."""
        self._need_residual(slice(None), slice(None))
        self._add_one(rows, self.buffers.residual)

    def _add_one(self, rows: Array, term: Array | None) -> None:
        if term is not None:
            self.step(REST, lambda: self._add(rows, [term]))

    def _add(self, rows: Array, terms: Sequence[Array]) -> None:
        if terms:
            add_to(rows, terms, out=rows)

    def _additions(self, part: slice, columns: slice) -> list[Array]:
        bias, residual = self.buffers.bias, self.buffers.residual
        terms = [] if bias is None else [bias[columns]]
        return terms if residual is None else [*terms, residual[part, columns]]

    def _need_residual(self, part: slice, columns: slice, needed: bool = True) -> None:
        if self.buffers.residual is not None and needed:
            self.program.residual = max(
                self.program.residual, self.buffers.residual[part, columns].nbytes
            )

    def normalize(self, rows: Array, columns: slice = slice(None)) -> None:
        """Normalise rows, or rows of the columns that are named as if these were all, in place."""
        self.count(rows.size)
        self.step(NORM, lambda: self._normalize(rows, columns))

    def _normalize(self, rows: Array, columns: slice) -> None:
        if rows.size:
            buffers = self.buffers
            beta = buffers.beta[columns] if self.norm.centred else None
            normalize(rows, buffers.gamma[columns], beta, self.norm, out=rows)

    def sum(self, parts: Array, out: Array) -> None:
        """Sum all ranks' parts, shape (p, T, H), in the order of the ranks."""
        of = self._communication.partial("allreduce", parts.dtype)
        wide = of != parts.dtype
        total = self.array(*out.shape, of=of) if wide else out

        def run() -> None:
            total[:] = parts[0]
            for part in parts[1:]:
                SUM.ufunc(total, part.astype(of, copy=False), out=total)
            if wide:
                out[:] = total

        self.step(REST, run)

    def copy(self, source: Array, target: Array) -> None:
        """Copy rows."""
        self.step(REST, lambda: np.copyto(target, source))

    def count(self, elements: int) -> None:
        """Count the operations of a norm of so many elements."""
        self.program.operations += OPERATIONS[self.norm.kind] * elements

    def step(self, phase: str, run: Callable[[], object], call: Call | None = None) -> None:
        """Do something in its turn."""
        self.program.steps.append(Step(phase, run, call))
