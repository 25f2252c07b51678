"""How messages are cut into pieces."""

from dataclasses import dataclass

from hpccoll.placement import Placement

LARGEST_PIECE = 1 << 30
"""No message has more bytes than this: not every library counts beyond 2**31."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces in which some messages are faster than whole.

    Attributes
    ----------
    lengths
        Pairs of bytes, ascending: messages up to the first go in pieces of the second, or whole
        where that is None. Longer ones go whole.
    nodes
        Where the ranks are: messages between nodes go whole.
    """

    lengths: tuple[tuple[int, int | None], ...]
    nodes: Placement

    def of(self, size: int, rank: int, peer: int) -> int | None:
        """Return the bytes of the pieces of a message between two ranks, None if it goes whole."""
        if self.nodes.nodes[rank] != self.nodes.nodes[peer]:
            return None
        return next((length for most, length in self.lengths if size <= most), None)

    def ranges(self) -> list[tuple[int, int, int]]:
        """Return, where messages are cut, above which and up to which bytes, and the length."""
        found: list[tuple[int, int, int]] = []
        above = 0
        for most, length in self.lengths:
            if length and found and found[-1][1:] == (above, length):
                found[-1] = (found[-1][0], most, length)
            elif length:
                found.append((max(above, length), most, length))
            above = most
        return found

    def record(self) -> list[dict[str, int]]:
        """Return what a record says of them, in bytes."""
        return [{"above": a, "up_to": most, "piece": n} for a, most, n in self.ranges()]


@dataclass(frozen=True, slots=True)
class Segmentation:
    """How long messages are cut; both ends must use the same.

    Attributes
    ----------
    bytes
        The longest piece of a message.
    window
        Pieces that a round's only receive has in flight; each is reduced as soon as it is there.
    pieces
        Shorter pieces of some messages.
    """

    bytes: int = LARGEST_PIECE
    window: int = 2
    pieces: Pieces | None = None

    def piece(self, size: int, rank: int, peer: int) -> int:
        """Return the longest piece, in bytes, of a message of `size` bytes between two ranks."""
        longest = min(self.bytes, LARGEST_PIECE)
        shorter = self.pieces.of(size, rank, peer) if self.pieces else None
        return min(shorter or longest, longest)


WHOLE = Segmentation()
"""No message is cut but for what libraries can count."""
