"""Where one rank's share of a message lies in the caller's buffers."""

from dataclasses import dataclass

from hpccoll.collectives import Collective
from hpccoll.partition import Partition

INPUT = 0
OUTPUT = 1
SCRATCH = 2
SPACES = ("input", "output", "scratch")


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


@dataclass(frozen=True, slots=True)
class Message:
    """What a collective is called with.

    Attributes
    ----------
    count
        Elements of the full vector (see the collective's `bytes_are`).
    itemsize
        Bytes of an element.
    in_place
        The input lies in the output's buffer, as the collective's `in_place` says.
    average
        The reduced result is divided by the number of ranks, once, at the end.
    """

    count: int
    itemsize: int
    root: int = 0
    in_place: bool = False
    average: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """One rank's share of a message; counts and offsets are in elements.

    Attributes
    ----------
    held, result
        Where the rank's input and its result lie. In place the input lies in the output space, and
        the input space is empty.
    held_start, result_start
        The index in the full vector of their first element.
    input, output
        Size of the two spaces.
    """

    held: Region
    held_start: int
    result: Region
    result_start: int
    input: int
    output: int

    @property
    def in_place(self) -> bool:
        """Tell whether the input lies in the output's buffer."""
        return self.held.space == OUTPUT


def layout(collective: Collective, rank: int, size: int, message: Message) -> Layout:
    """Return where the share of `rank` lies; it is the same for every algorithm."""
    border = Partition(message.count, size).border
    held, wanted = (
        (border(window.start), border(window.stop))
        for window in (
            collective.held(rank, size, message.root, size),
            collective.wanted(rank, size, message.root, size),
        )
    )
    held_count, result_count = held[1] - held[0], wanted[1] - wanted[0]
    result = Region(OUTPUT, 0, result_count)
    # In place only concerns a rank that has a result: the others of a reduce keep their input.
    has_result = bool(collective.wanted(rank, size, message.root, size))
    if has_result and (message.in_place or collective.one_buffer):
        whole = max(held, wanted, key=lambda window: window[1] - window[0])
        inside = held[0] - whole[0] if held_count else 0
        own = Region(OUTPUT, inside, held_count)
        return Layout(own, held[0], result, wanted[0], 0, whole[1] - whole[0])
    own = Region(INPUT, 0, held_count)
    return Layout(own, held[0], result, wanted[0], held_count, result_count)
