"""What one rank does in an order of operations, bound to its buffers and ready to be repeated."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hpccoll.clock import now
from hpccoll.datatypes import Array
from hpccoll.engines.call import Call
from hpccoll.layernorm.communication import Bound
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.traffic import Traffic

COMMUNICATION, NORM, REST = PHASES = ("communication", "norm", "rest")
"""The phases of a call: collectives, with what they wait and reduce; norms; sums and copies."""


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
