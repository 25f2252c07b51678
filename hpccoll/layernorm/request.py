"""What the orders of a norm are asked to be compared with, checked before MPI starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpccoll import datatypes
from hpccoll.choice import Choice
from hpccoll.errors import UsageError, unknown
from hpccoll.layernorm.backward import BACKWARD
from hpccoll.layernorm.inputs import INPUTS, Inputs
from hpccoll.layernorm.norms import Norm
from hpccoll.layernorm.orders import ORDERS
from hpccoll.placement import Placement
from hpccoll.registry import LIBRARY, catalogue
from hpccoll.spelling import choose

ALL = "all"
ALGORITHMS = {
    "allreduce": "ring",
    "reduce": "binomial",
    "bcast": "binomial",
    "reduce-scatter": "ring",
    "allgather": "ring",
    "gather": "linear",
}
"""The collectives that orders call, and the algorithms of those that nothing else is said of."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to compare.

    Attributes
    ----------
    tokens, hidden
        Rows T of H elements.
    dtype
        Type of the rows that are held and sent.
    accumulate
        Whether partial results of 16-bit floats have the type itself (``storage``) or ``float32``.
    orders, inputs
        Names, in their order.
    every
        All orders were asked for: those that the rest of the request excludes are skipped with the
        reason. Otherwise they are an error.
    choices
        An algorithm for every collective.
    library
        Run the orders with the library's collectives as well.
    segments
        Of the fused order; None leaves it to the cost model.
    backward
        Run the backward passes as well.
    repetitions
        Timed calls of each order, at most.
    time_budget
        Seconds for the timed calls of all orders together.
    timeout
        Seconds after which a call counts as hung.
    """

    tokens: int
    hidden: int
    dtype: np.dtype[Any]
    norm: Norm
    accumulate: str
    orders: tuple[str, ...]
    every: bool
    inputs: tuple[str, ...]
    residual: bool
    bias: bool
    choices: Mapping[str, Choice]
    library: bool
    segments: int | None
    backward: bool
    repetitions: int
    time_budget: float
    seed: int
    engine: str = "auto"
    timeout: float = 60.0

    @property
    def bytes(self) -> int:
        """Return the bytes of one rank's rows."""
        return self.tokens * self.hidden * self.dtype.itemsize

    @property
    def words(self) -> str:
        """Return the shape and type of the rows in words."""
        return f"{self.tokens} x {self.hidden} {self.dtype.name}"

    def input(self, name: str, size: int) -> Inputs:
        """Return the input of that name for `size` ranks.

        Raises
        ------
        UsageError
            It can't be made for so many ranks in this type.
        """
        return Inputs(
            name,
            self.tokens,
            self.hidden,
            self.dtype,
            size,
            self.seed,
            residual=self.residual,
            bias=self.bias,
        )

    def possible(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the orders that can be run, and why the others are skipped.

        Raises
        ------
        UsageError
            An order that was asked for by name needs what is left out.
        """
        able, reasons = [], {}
        for name in self.orders:
            needs = ORDERS[name].needs
            if needs and not getattr(self, needs):
                reason = f"{name} needs a {needs}; leave out --no-{needs}"
                if not self.every:
                    raise UsageError(reason)
                reasons[name] = reason
            else:
                able.append(name)
        return tuple(able), reasons

    @property
    def called(self) -> frozenset[str]:
        """Return the collectives whose algorithms are those of `choices`, and no order's own."""
        orders = [ORDERS[name] for name in self.possible()[0]]
        called = {of for order in orders for of in order.collectives if of not in dict(order.fixed)}
        passes = [one for one in BACKWARD.values() if self.backward and one.order in self.orders]
        return frozenset(called.union(*(one.also for one in passes)))

    def check_ranks(self, nodes: Placement) -> None:
        """Check that ranks that are placed so can do what was asked.

        Raises
        ------
        UsageError
            An input can't be made for so many ranks, or an algorithm isn't defined for them.
        """
        for name in self.inputs:
            self.input(name, nodes.size)
        for of in sorted(self.called):
            self.choices[of].on(nodes).check(nodes.size)


def build(
    *,
    dtype: str,
    norm: str,
    method: str,
    eps: float,
    ordering: str,
    input_names: str,
    algorithm: str | None,
    accumulate: str,
    **rest: Any,
) -> Request:
    """Return the request that the command line spells.

    Raises
    ------
    UsageError
        Some value is unknown, can't be read, or doesn't fit the others.
    """
    element = datatypes.dtype(dtype)
    if accumulate == "float32" and element.itemsize != 2:
        raise UsageError(
            f"--accumulate float32 is for float16 and bfloat16, not for {element.name}"
        )
    request = Request(
        dtype=element,
        norm=Norm(norm, method, eps),
        accumulate=accumulate,
        orders=_names("ordering", ordering, ORDERS),
        every=ordering == ALL,
        inputs=_names("input", input_names, INPUTS),
        choices=algorithms(algorithm),
        **rest,
    )
    request.possible()
    return request


def _names(kind: str, text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a comma-separated list spells, each once."""
    if text == ALL:
        return tuple(known)
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(unknown(kind, name, [*known, ALL]))
    return tuple(dict.fromkeys(names))


def algorithms(text: str | None) -> dict[str, Choice]:
    """Return an algorithm for every collective: the defaults, and what ``--algorithm`` spells.

    ``NAME`` chooses it for every collective that has it, ``COLLECTIVE=NAME`` for one of them.

    Raises
    ------
    UsageError
        A collective has no such algorithm; the message lists those that it has.
    """
    chosen = {of: choose(of, name)[0] for of, name in ALGORITHMS.items()}
    for item in text.split(",") if text else ():
        of, equals, name = item.strip().partition("=")
        if equals and of in ALGORITHMS:
            chosen[of] = _one(of, name)
        elif equals and ":" not in of:
            raise UsageError(unknown("collective of --algorithm", of, ALGORITHMS))
        else:
            chosen |= _wherever(item.strip())
    return chosen


def _wherever(text: str) -> dict[str, Choice]:
    name = text.split(":")[0]
    if name == LIBRARY:
        _one("allreduce", name)
    having = {
        of: {n for entry in catalogue(of) for n in (entry.name, *entry.aliases)}
        for of in ALGORITHMS
    }
    found = {of: _one(of, text) for of, names in having.items() if name in names}
    if not found:
        raise UsageError(unknown("algorithm", name, sorted(set().union(*having.values()))))
    return found


def _one(of: str, text: str) -> Choice:
    if text == LIBRARY:
        raise UsageError("--algorithm chooses hpccoll's own; for the library's use --library")
    found = choose(of, text)
    if len(found) > 1:
        raise UsageError(f"--algorithm takes one value for each parameter, got {text!r}")
    return found[0]
