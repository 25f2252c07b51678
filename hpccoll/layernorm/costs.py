"""What an order of operations costs: counted, and by the formulas for what it is made of.

Rounds and the critical path are counted from the schedules of all ranks, what each rank moves from
its plans, operations and memory from what its program does. The formulas are the closed forms of
the algorithms, and those of the orders: p ranks, T rows of H elements, n their bytes,
L = ceil(log2 p), S segments.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hpccoll.cost import evaluate
from hpccoll.layernorm.communication import Bound
from hpccoll.layernorm.orders import ORDERS
from hpccoll.layout import natural
from hpccoll.registry import Choice
from hpccoll.trace import watch
from hpccoll.verify import execute

BINOMIAL = "binomial"
ROOTED = (("reduce", "bcast"), ("bcast", "reduce"))
"""Collectives of orders that move whole rows to the root and back."""


@dataclass(frozen=True, slots=True)
class Path:
    """The critical path of collectives that follow one another.

    Attributes
    ----------
    bytes
        In every step the most that a rank sends or receives, added up.
    """

    rounds: int = 0
    bytes: int = 0

    def __add__(self, other: "Path") -> "Path":
        return Path(self.rounds + other.rounds, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Formula:
    """What an order costs by its formulas; None where there is none.

    Attributes
    ----------
    sent, received
        Bytes of the rank with most.
    total
        Bytes that all ranks send.
    path
        Bytes on the critical path.
    """

    rounds: Fraction | None
    sent: Fraction | None
    received: Fraction | None
    total: Fraction | None
    path: Fraction | None


def path(bound: Bound, size: int) -> Path:
    """Count rounds and bytes on the critical path of one collective of hpccoll's own."""
    choice, message = bound.choice, bound.message
    assert choice is not None
    blocks = natural(choice.algorithm.collective, size, message).finer(choice.grid(size))
    rounds = most = 0
    for arrows in watch(choice, size, states=False).arrows.values():
        moved: Counter[tuple[str, int]] = Counter()
        for arrow in arrows:
            elements = sum(
                blocks.border(part.stop) - blocks.border(part.start)
                if part.step == 1
                else sum(map(blocks.size, part))
                for part in arrow.blocks
            )
            moved["sent", arrow.source] += elements
            moved["received", arrow.target] += elements
        largest = max(moved.values(), default=0)
        rounds += largest > 0
        most += largest * message.itemsize
    return Path(rounds, most)


def depth(choice: Choice, size: int) -> int:
    """Return the additions on the longest path from a rank's part to a finished sum."""
    return max(execute(choice, size).terms.depth)


def formula(order: str, bound: Sequence[Bound], size: int) -> Formula:
    """Return what the formulas say of an order that is bound to these collectives.

    They count in blocks of equal size, so there are none where the ranks, or segments, don't divide
    the rows or columns; and none of what nobody sees, the library's messages.
    """
    if not bound or not all(_even(part, size) for part in bound):
        return Formula(None, None, None, None, None)
    rounds = sum((_closed(part, size, "rounds") for part in bound), Fraction(0))
    if ORDERS[order].collectives in ROOTED:
        return _rooted(rounds, {part.collective: part for part in bound}, size)
    if order == "gather-layernorm-bcast":
        n = bound[1].message.count * bound[1].message.itemsize
        forms = ("n*L", "n*(p-1)", "2*n*(p-1)", "n*(p-1) + n*L")
        return Formula(rounds, *(evaluate(form, size, n) for form in forms))
    if order == "fused":
        return _chain(rounds, bound[0], size)
    return _symmetric(rounds, bound, size)


def _symmetric(rounds: Fraction, bound: Sequence[Bound], size: int) -> Formula:
    """Return the formulas of collectives in which all ranks do the same.

    Only of these does every rank send as much as the one with most.
    """
    alike = all(part.label.split(":")[0] in ALIKE[part.collective] for part in bound)
    sent = sum((_closed(part, size, "sent") for part in bound), Fraction(0))
    if not alike:
        return Formula(rounds, None, None, None, None)
    return Formula(rounds, sent, sent, size * sent, sent)


ALIKE = {
    "allreduce": ("ring", "circulant", "one-shot"),
    "reduce-scatter": ("ring", "circulant", "direct", "pairwise"),
    "allgather": ("ring", "circulant", "bruck", "linear"),
}
"""Algorithms in which all ranks do the same, if their blocks are equal."""


def _rooted(rounds: Fraction, parts: Mapping[str, Bound], size: int) -> Formula:
    """Return the formulas of a reduce and a broadcast, whichever comes first.

    The reduce may be of a wider type, and then it depends on the tree who sends most.
    """
    names = {of: part.label.split(":")[0] for of, part in parts.items()}
    n = {of: part.message.count * part.message.itemsize for of, part in parts.items()}
    most, least = max(n.values()), min(n.values())
    if set(names.values()) == {BINOMIAL}:
        path = evaluate("n*L", size, sum(n.values()))
        received = evaluate("n*L", size, most)
        total = evaluate("n*(p-1)", size, sum(n.values()))
        return Formula(rounds, received if most == least else None, received, total, path)
    large = {"reduce": "rabenseifner", "bcast": "scatter-allgather-ring"}
    path_form = "2*n*(p-1)/p"
    if names == large and size & (size - 1) == 0:
        return Formula(rounds, None, None, None, evaluate(path_form, size, sum(n.values())))
    return Formula(rounds, None, None, None, None)


def _chain(rounds: Fraction, part: Bound, size: int) -> Formula:
    """Return the formulas of segments that go up a chain and down again.

    From the first segment's way down to the last one's way up, an inner rank moves two a step.
    """
    n, (_, number) = part.message.count * part.message.itemsize, part.label.split("=")
    segments = int(number)
    most, total = (evaluate(form, size, n) for form in ("n*((p>1) + (p>2))", "2*n*(p-1)"))
    both = segments - 1 if size > 2 and segments > 2 else 0
    steps = segments - 1 + 2 * (size - 1) + both if size > 1 else 0
    return Formula(rounds, most, most, total, Fraction(n, segments) * steps)


def _closed(part: Bound, size: int, form: str) -> Fraction:
    choice, message = part.choice, part.message
    assert choice is not None
    n = message.count * message.itemsize
    nodes = choice.placement(size).count if choice.algorithm.placed else 1
    return evaluate(getattr(choice.algorithm, form), size, n, choice.values, nodes)


def _even(part: Bound, size: int) -> bool:
    """Tell whether the closed forms hold: all blocks have the same size, and none is empty."""
    choice, message = part.choice, part.message
    if choice is None or not choice.as_declared(size) or not message.count:
        return False
    even = len(set(message.counts or (0,))) == 1
    return even and message.count % choice.grid(size) == 0


def counted(bound: Iterable[Bound], size: int) -> Path | None:
    """Count rounds and bytes on the critical path; None of the library's messages."""
    parts = list(bound)
    if any(part.choice is None for part in parts):
        return None
    return sum((path(part, size) for part in parts), Path())
