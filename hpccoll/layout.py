"""Where one rank's share of a message lies in the caller's buffers."""

from collections.abc import Callable
from dataclasses import dataclass

from hpccoll.collectives import Collective
from hpccoll.errors import UsageError
from hpccoll.partition import Partition, Window

INPUT = 0
OUTPUT = 1
SCRATCH = 2
USER = 3
"""From here on spaces have the caller's elements, where those before have partial results of
another type: the caller's input and output, and what receives messages of such elements."""
LANDING = 5
SPACES = ("input", "output", "scratch", "input", "output", "scratch")


@dataclass(frozen=True, slots=True)
class Region:
    """`count` elements of a space, from `offset` on."""

    space: int
    offset: int
    count: int

    def overlaps(self, other: "Region") -> bool:
        """Tell whether the two share an element."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.count
            and other.offset < self.offset + self.count
        )

    def inside(self, other: "Region") -> bool:
        """Tell whether it has elements, and the other one has them all."""
        return (
            self.count > 0
            and self.space == other.space
            and other.offset <= self.offset
            and self.offset + self.count <= other.offset + other.count
        )


@dataclass(frozen=True, slots=True)
class Message:
    """What a collective is called with.

    Attributes
    ----------
    count
        Elements of one rank's vector (see the collective's `bytes_are`).
    itemsize
        Bytes of an element.
    in_place
        The input lies in the output's buffer, as the collective's `in_place` says.
    average
        The reduced result is divided by the number of ranks, once, at the end.
    ordered
        The operator isn't commutative: operands must come in the order of the ranks.
    counts
        Elements of each natural block, where the caller chose them.
    """

    count: int
    itemsize: int
    root: int = 0
    in_place: bool = False
    average: bool = False
    ordered: bool = False
    counts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """One rank's share of a message; counts and offsets are in elements.

    Attributes
    ----------
    held, result
        Where the rank's input and its result lie. In place the input lies in the output space, and
        the input space is empty.
    held_spans, result_spans
        The elements of the full vector that fill them, in order.
    input, output
        Size of the two spaces.
    """

    held: Region
    held_spans: tuple[range, ...]
    result: Region
    result_spans: tuple[range, ...]
    input: int
    output: int

    @property
    def in_place(self) -> bool:
        """Tell whether the input lies in the output's buffer."""
        return self.held.space == OUTPUT


def natural(collective: Collective, size: int, message: Message) -> Partition:
    """Return the full vector, cut into the blocks that the caller sees."""
    whole = message.count * collective.vectors(size)
    return Partition(whole, collective.natural(size), message.counts)


def check_message(collective: Collective, size: int, message: Message) -> None:
    """Raise `UsageError` if `message` can't be exchanged in place.

    What is received must be as long as what it replaces, so an alltoall's blocks must be equal.
    """
    if not message.in_place or collective.vectors(size) == 1:
        return
    blocks = natural(collective, size, message)

    def lengths(of: Callable[[int, int, int, int], range], rank: int) -> list[int]:
        return [blocks.size(block) for block in of(rank, size, message.root, blocks.blocks)]

    if any(lengths(collective.held, r) != lengths(collective.wanted, r) for r in range(size)):
        raise UsageError(
            f"{collective.name} in place replaces what is sent by what is received, so all "
            f"blocks must be equal; use sizes that {size} ranks divide, or not --in-place"
        )


def layout(collective: Collective, rank: int, size: int, message: Message) -> Layout:
    """Return where the share of `rank` lies; it is the same for every algorithm."""
    blocks = natural(collective, size, message)
    names = [
        of(rank, size, message.root, blocks.blocks) for of in (collective.held, collective.wanted)
    ]
    held, wanted = (Window(blocks, window, 1) for window in names)
    # In place only concerns a rank that has both: the others of a reduce keep their input.
    if collective.one_buffer or (message.in_place and len(held) and len(wanted)):
        whole, part = (held, wanted) if len(held) >= len(wanted) else (wanted, held)
        inside = whole.offset(next(iter(part))) if len(part) < len(whole) and len(part) else 0
        own = Region(OUTPUT, inside if part is held else 0, held.count)
        result = Region(OUTPUT, inside if collective.stays else 0, wanted.count)
        return Layout(own, held.spans, result, wanted.spans, 0, max(held.count, wanted.count))
    own, result = Region(INPUT, 0, held.count), Region(OUTPUT, 0, wanted.count)
    return Layout(own, held.spans, result, wanted.spans, held.count, wanted.count)
