"""One rank's part in an order of operations: what it allocates, calls and computes.

An order is told to a `Rank` once, step by step; the `Program` that this leaves repeats it on the
same buffers as often as it is called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hpccoll.clock import now
from hpccoll.datatypes import Array
from hpccoll.engines.call import Call
from hpccoll.errors import UnsupportedError
from hpccoll.layernorm.communication import SUM, Bound, Communication, Traffic
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.norms import (
    Moments,
    Norm,
    accumulation,
    add_to,
    apply,
    finish,
    merge,
    moments,
    normalize,
)
from hpccoll.partition import Partition
from hpccoll.registry import Choice

COMMUNICATION, NORM, REST = PHASES = ("communication", "norm", "rest")
"""The phases of a call: collectives, with what they wait and reduce; norms; sums and copies."""

OPERATIONS = {"layernorm": 7, "rmsnorm": 4}
"""Operations per element: sum, subtract, square and add, times the reciprocal root, gamma, beta;
RMSNorm has no mean and no beta."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """What all orders share: input, output and parameters of this rank, of the storage type.

    Attributes
    ----------
    bias, residual
        Shapes (H,) and (T, H); None where nothing is added.
    """

    x: Array
    y: Array
    gamma: Array
    beta: Array
    bias: Array | None
    residual: Array | None

    @classmethod
    def allocate(cls, inputs: Inputs) -> "Buffers":
        """Return buffers for inputs of this shape and type, every page of them touched."""
        tokens, hidden, of = inputs.tokens, inputs.hidden, inputs.dtype

        def zeros(*shape: int) -> Array:
            return np.full(shape, 0, of)

        return cls(
            zeros(tokens, hidden),
            zeros(tokens, hidden),
            zeros(hidden),
            zeros(hidden),
            zeros(hidden) if inputs.bias else None,
            zeros(tokens, hidden) if inputs.residual else None,
        )

    def fill(self, inputs: Inputs, rank: int) -> None:
        """Write the inputs of a rank, and to the output what no order may leave there."""
        self.x[:] = inputs.partial(rank)
        self.y[:] = np.nan
        self.gamma[:], self.beta[:] = inputs.gamma, inputs.beta
        for target, source in (
            (self.bias, inputs.bias_vector),
            (self.residual, inputs.residual_rows),
        ):
            if target is not None and source is not None:
                target[:] = source


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


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a rank does, and the phase that its time belongs to."""

    phase: str
    run: Callable[[], object]
    call: Call | None = None


@dataclass
class Program:
    """An order bound to the buffers of one rank: calling it performs it once.

    Attributes
    ----------
    bound
        The collectives that it calls, in their order.
    extra
        Bytes that it needs besides input, output and residual.
    residual
        Bytes of the residual that this rank needs.
    operations
        Of norms, on this rank.
    spent
        Seconds of the last call in each of the `PHASES`.
    """

    steps: list[Step] = field(default_factory=list)
    bound: list[Bound] = field(default_factory=list)
    extra: int = 0
    residual: int = 0
    operations: int = 0
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    engine: str = "orders of a norm"
    function: str = ""
    _at: int = 0

    def __call__(self) -> None:
        """Perform the order once."""
        self.spent.update(dict.fromkeys(PHASES, 0.0))
        begin = now()
        for self._at, step in enumerate(self.steps):  # noqa: B020
            step.run()
            end = now()
            self.spent[step.phase] += end - begin
            begin = end

    def position(self) -> str:
        """Say what the rank is waiting for, or computing."""
        step = self.steps[self._at]
        where = f"step {self._at + 1} of {len(self.steps)}, {step.phase}"
        return f"{where}: {step.call.position()}" if step.call else where

    @property
    def traffic(self) -> Traffic | None:
        """Return what this rank moves in all collectives, None where the library moves it."""
        parts = [bound.traffic for bound in self.bound if bound.traffic is not None]
        return sum(parts, Traffic()) if len(parts) == len(self.bound) else None


class Rank:
    """What one rank can do; each method adds a step to the program.

    Attributes
    ----------
    x, y
        The rank's part of the sum and its result, shape (T, H).
    """

    def __init__(
        self,
        communication: Communication,
        norm: Norm,
        buffers: Buffers,
        fixed: dict[str, Choice],
        segments: Callable[[], int],
    ) -> None:
        self._communication, self._norm, self._buffers = communication, norm, buffers
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
        """Allocate an array of the storage type or another, every page of it touched."""
        made = np.full(shape, 0, of or self.x.dtype)
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
        self._step(COMMUNICATION, bound.call, bound.call)

    def reduce_normalize_bcast(self) -> None:
        """Reduce along a chain to the root, which normalises every segment and sends it back."""
        if not self._communication.own:
            raise UnsupportedError("the library can't be made to do something between two segments")
        spent = self.program.spent
        self._need_residual(slice(None), slice(None), self.is_root)

        def between(rows: Array, first: int) -> None:
            begin = now()
            part = slice(first, first + len(rows))
            narrow = rows.astype(self.x.dtype, copy=False)
            self._add(narrow, self._additions(part, slice(None)))
            self._normalize(narrow, slice(None))
            if narrow is not rows:
                rows[:] = narrow
            # The call that it is a part of counts as communication.
            elapsed = now() - begin
            spent[NORM] += elapsed
            spent[COMMUNICATION] -= elapsed

        self._communicate(self._communication.fused(self.x, self.y, self._segments(), between))
        if self.is_root:
            self._count(self.x.size)
        if self.size == 1:  # nothing is sent, so nothing was done before sending
            self._step(NORM, lambda: between(self.y, 0))

    # Computing

    def add(self, rows: Array, part: slice = slice(None), columns: slice = slice(None)) -> None:
        """Add bias and residual to rows: those of all tokens and channels that are named."""
        terms = self._additions(part, columns)
        self._need_residual(part, columns)
        if terms:
            self._step(REST, lambda: self._add(rows, terms))

    def add_bias(self, rows: Array) -> None:
        """Add the bias alone."""
        self._add_one(rows, self._buffers.bias)

    def add_residual(self, rows: Array) -> None:
        """Add the residual alone."""
        self._need_residual(slice(None), slice(None))
        self._add_one(rows, self._buffers.residual)

    def _add_one(self, rows: Array, term: Array | None) -> None:
        if term is not None:
            self._step(REST, lambda: self._add(rows, [term]))

    def _add(self, rows: Array, terms: Sequence[Array]) -> None:
        if terms:
            add_to(rows, terms, out=rows)

    def _additions(self, part: slice, columns: slice) -> list[Array]:
        bias, residual = self._buffers.bias, self._buffers.residual
        terms = [] if bias is None else [bias[columns]]
        return terms if residual is None else [*terms, residual[part, columns]]

    def _need_residual(self, part: slice, columns: slice, needed: bool = True) -> None:
        if self._buffers.residual is not None and needed:
            self.program.residual = max(
                self.program.residual, self._buffers.residual[part, columns].nbytes
            )

    def normalize(self, rows: Array, columns: slice = slice(None)) -> None:
        """Normalise rows, or rows of the columns that are named as if these were all, in place."""
        self._count(rows.size)
        self._step(NORM, lambda: self._normalize(rows, columns))

    def _normalize(self, rows: Array, columns: slice) -> None:
        if rows.size:
            buffers = self._buffers
            beta = buffers.beta[columns] if self._norm.centred else None
            normalize(rows, buffers.gamma[columns], beta, self._norm, out=rows)

    def normalize_shard(self, shard: Array) -> None:
        """Normalise this rank's columns with the statistics of whole rows, in place.

        Every rank gathers the moments of all shards and merges them in the order of the ranks, so
        that all have the same bits.
        """
        columns, norm = self.columns, self._norm
        of = accumulation(self.x.dtype)
        kinds, tokens = 1 + norm.centred, self.x.shape[0]
        own = self.array(kinds, tokens, of=of)
        everyone = self.array(self.size, kinds, tokens, of=of)
        widths = [b - a for a, b in zip(columns.borders, columns.borders[1:], strict=False)]
        self._count(shard.size)

        def take() -> None:
            found = moments(shard, norm)
            own[-1] = found.m2
            if found.mean is not None:
                own[0] = found.mean

        def give() -> None:
            parts = [
                Moments(width, some[0] if norm.centred else None, some[-1])
                for width, some in zip(widths, everyone, strict=True)
            ]
            beta = self._buffers.beta[columns.part] if norm.centred else None
            gamma = self._buffers.gamma[columns.part]
            apply(shard, finish(merge(parts), norm), gamma, beta, out=shard)

        if shard.size:
            self._step(NORM, take)
        self.collective("allgather", own, everyone, counts=(own.size,) * self.size)
        if shard.size:
            self._step(NORM, give)

    def sum(self, parts: Array, out: Array) -> None:
        """Sum all ranks' parts, shape (p, T, H), in the order of the ranks."""
        wide = self._communication.widens("allreduce", parts.dtype)
        of = np.dtype(np.float32) if wide else parts.dtype
        total = self.array(*out.shape, of=of) if wide else out

        def run() -> None:
            total[:] = parts[0]
            for part in parts[1:]:
                SUM.ufunc(total, part.astype(of, copy=False), out=total)
            if wide:
                out[:] = total

        self._step(REST, run)

    def copy(self, source: Array, target: Array) -> None:
        """Copy rows."""
        self._step(REST, lambda: np.copyto(target, source))

    def pack(self, rows: Array, packed: Array) -> None:
        """Copy rows so that every rank's columns lie side by side."""
        pairs = self._packed(rows, packed)
        self._step(REST, lambda: [np.copyto(target, source) for source, target in pairs])

    def unpack(self, packed: Array, rows: Array) -> None:
        """Copy back what `pack` did."""
        pairs = self._packed(rows, packed)
        self._step(REST, lambda: [np.copyto(target, source) for target, source in pairs])

    def _packed(self, rows: Array, packed: Array) -> list[tuple[Array, Array]]:
        """Return every rank's columns in the rows, and their place in the packed elements."""
        borders, tokens = self.columns.borders, rows.shape[0]
        return [
            (rows[:, a:b], packed[tokens * a : tokens * b].reshape(tokens, b - a))
            for a, b in zip(borders, borders[1:], strict=False)
        ]

    def _count(self, elements: int) -> None:
        self.program.operations += OPERATIONS[self._norm.kind] * elements

    def _step(self, phase: str, run: Callable[[], object], call: Call | None = None) -> None:
        self.program.steps.append(Step(phase, run, call))
