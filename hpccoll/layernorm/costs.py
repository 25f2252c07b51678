"""What an order of operations costs: counted, and by the formulas for what it is made of.

Rounds and the critical path are counted from the schedules of all ranks, what each rank moves from
its plans, operations and memory from what its program does. The formulas are the closed forms of
the algorithms, and those of the orders: p ranks, T rows of H elements, n their bytes,
L = ceil(log2 p), S segments.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hpccoll.choice import Choice
from hpccoll.cost import evaluate
from hpccoll.layernorm.communication import Bound
from hpccoll.layernorm.orders import ORDERS
from hpccoll.layernorm.traffic import Carried, carried
from hpccoll.layout import natural
from hpccoll.partition import Partition
from hpccoll.schedule import Ranges
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
    exact
        Else the bytes are bounds: those of messages that all carry partial results, which are wider
        than the caller's elements that some of them carry.
    """

    rounds: Fraction | None
    sent: Fraction | None
    received: Fraction | None
    total: Fraction | None
    path: Fraction | None
    exact: bool = True


def path(bound: Bound, size: int) -> Path:
    """Count rounds and bytes on the critical path of one collective of hpccoll's own."""
    choice, message = bound.choice, bound.message
    assert choice is not None
    blocks = natural(choice.algorithm.collective, size, message).finer(choice.grid(size))
    sent = carried(choice, size, message) if bound.widens else {}
    rounds = most = 0
    for arrows in watch(choice, size, states=False).arrows.values():
        moved: Counter[tuple[str, int]] = Counter()
        for arrow in arrows:
            elements = _elements(arrow.blocks, blocks)
            count = elements * message.itemsize
            if bound.widens:
                way = sent.get((arrow.source, arrow.target, arrow.channel), deque())
                count = _taken(way, elements, bound)
            moved["sent", arrow.source] += count
            moved["received", arrow.target] += count
        largest = max(moved.values(), default=0)
        rounds += largest > 0
        most += largest
    return Path(rounds, most)


def _elements(names: Ranges, blocks: Partition) -> int:
    return sum(
        blocks.border(part.stop) - blocks.border(part.start)
        if part.step == 1
        else sum(map(blocks.size, part))
        for part in names
    )


def _taken(way: deque[Carried], elements: int, bound: Bound) -> int:
    """Take the messages that an arrow became, so many elements in all; return their bytes."""
    taken = 0
    while elements:
        message = way.popleft()
        elements -= message.elements
        taken += message.elements * (bound.message.itemsize if message.partial else bound.itemsize)
    return taken


def depth(choice: Choice, size: int) -> int:
    """Return the additions on the longest path from a rank's part to a finished sum."""
    return max(execute(choice, size).terms.depth)


@dataclass(frozen=True, slots=True)
class _Part:
    """A collective, as the closed forms see it.

    Attributes
    ----------
    n, narrower
        Bytes of its vector, of partial results if any message has them, and by how many a vector of
        the caller's elements has fewer.
    """

    bound: Bound
    n: int
    narrower: int

    @property
    def name(self) -> str:
        return self.bound.label.split(":")[0]

    @property
    def exact(self) -> bool:
        return not self.narrower or self.name == RING


def _part(bound: Bound, size: int) -> _Part:
    choice, message = bound.choice, bound.message
    assert choice is not None
    partial = bound.widens and any(
        one.partial for way in carried(choice, size, message).values() for one in way
    )
    narrow = message.count * bound.itemsize
    n = message.count * message.itemsize if partial else narrow
    return _Part(bound, n, n - narrow)


def formula(order: str, bound: Sequence[Bound], size: int) -> Formula:
    """Return what the formulas say of an order that is bound to these collectives.

    They count in blocks of equal size, so there are none where the ranks, or segments, don't divide
    the rows or columns; and none of what nobody sees, the library's messages.
    """
    if not bound or not all(_even(part, size) for part in bound):
        return Formula(None, None, None, None, None)
    parts = [_part(one, size) for one in bound]
    return replace(_formula(order, parts, size), exact=all(part.exact for part in parts))


def _formula(order: str, parts: Sequence[_Part], size: int) -> Formula:
    rounds = sum((_closed(part, size, "rounds") for part in parts), Fraction(0))
    if ORDERS[order].collectives in ROOTED:
        return _rooted(rounds, {part.bound.collective: part for part in parts}, size)
    if order == "gather-layernorm-bcast":
        forms = ("n*L", "n*(p-1)", "2*n*(p-1)", "n*(p-1) + n*L")
        sent, received, total, path = (evaluate(form, size, parts[1].n) for form in forms)
        return Formula(rounds, sent, received, total, path)
    if order == "fused":
        return _chain(rounds, parts[0], size)
    return _symmetric(rounds, parts, size)


def _symmetric(rounds: Fraction, parts: Sequence[_Part], size: int) -> Formula:
    """Return the formulas of collectives in which all ranks do the same.

    Only of these does every rank send as much as the one with most.
    """
    alike = all(part.name in ALIKE[part.bound.collective] for part in parts)
    sent = sum((_sent(part, size) for part in parts), Fraction(0))
    if not alike:
        return Formula(rounds, None, None, None, None)
    return Formula(rounds, sent, sent, size * sent, sent)


def _sent(part: _Part, size: int) -> Fraction:
    """Return what a rank sends: a ring's own block, and complete ones, are narrow."""
    narrow = NARROW[part.bound.collective] if part.name == RING and part.narrower else "0"
    return _closed(part, size, "sent") - evaluate(narrow, size, part.narrower)


RING = "ring"
NARROW = {"allreduce": "n", "reduce-scatter": "n/p"}
"""What a rank of a ring sends that isn't a partial result: one block, and p-1 complete ones."""

ALIKE = {
    "allreduce": ("ring", "circulant", "one-shot"),
    "reduce-scatter": ("ring", "circulant", "direct", "pairwise"),
    "allgather": ("ring", "circulant", "bruck", "linear"),
}
"""Algorithms in which all ranks do the same, if their blocks are equal."""


def _rooted(rounds: Fraction, parts: Mapping[str, _Part], size: int) -> Formula:
    """Return the formulas of a reduce and a broadcast, whichever comes first."""
    names = {of: part.name for of, part in parts.items()}
    n = [part.n for part in parts.values()]
    if set(names.values()) == {BINOMIAL}:
        path, total = (evaluate(form, size, sum(n)) for form in ("n*L", "n*(p-1)"))
        most = evaluate("n*L", size, max(n))
        return Formula(rounds, most, most, total, path)
    large = {"reduce": "rabenseifner", "bcast": "scatter-allgather-ring"}
    if names == large and size & (size - 1) == 0:
        path = evaluate("2*n*(p-1)/p", size, sum(n))
        return Formula(rounds, None, None, None, path)
    return Formula(rounds, None, None, None, None)


def _chain(rounds: Fraction, part: _Part, size: int) -> Formula:
    """Return the formulas of segments that go up a chain and down again.

    From the first segment's way down to the last one's way up, an inner rank moves two a step.
    """
    n, (_, number) = part.n, part.bound.label.split("=")
    segments = int(number)
    most, total = (evaluate(form, size, n) for form in ("n*((p>1) + (p>2))", "2*n*(p-1)"))
    both = segments - 1 if size > 2 and segments > 2 else 0
    steps = segments - 1 + 2 * (size - 1) + both if size > 1 else 0
    return Formula(rounds, most, most, total, Fraction(n, segments) * steps)


def _closed(part: _Part, size: int, form: str) -> Fraction:
    choice = part.bound.choice
    assert choice is not None
    nodes = choice.placement(size).count if choice.algorithm.placed else 1
    return evaluate(getattr(choice.algorithm, form), size, part.n, choice.values, nodes)


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
