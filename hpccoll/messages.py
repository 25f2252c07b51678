"""How an action becomes messages, and a message pieces: at both ends alike."""

from dataclasses import dataclass

from hpccoll.layout import Region
from hpccoll.places import Places
from hpccoll.schedule import Ranges, ranges
from hpccoll.segmentation import Segmentation

PACK_BYTES = 4096
"""A message of several separate ranges is packed if they have up to so many bytes on average, and
split per range beyond: then another message costs less than copying a range."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """The cuts of one rank's messages, whose elements have `itemsize` bytes."""

    places: Places
    rank: int
    itemsize: int
    segmentation: Segmentation

    def messages(self, blocks: object) -> list[Ranges]:
        """Return the messages that an action becomes: both sides decide alike."""
        names = ranges(blocks)  # type: ignore[arg-type]
        if not names:
            return [names]
        filled: list[Ranges] = [(part,) for part in names if self.places.count((part,))]
        if self.places.count(names) * self.itemsize > PACK_BYTES * len(filled):
            return filled
        return [names] if filled else []

    def piece(self, count: int, peer: int) -> int:
        """Return the elements of the longest piece of a message of `count` elements."""
        size = self.itemsize
        return max(1, self.segmentation.piece(count * size, self.rank, peer) // size)

    def pieces(self, region: Region, peer: int) -> list[Region]:
        """Cut a message into pieces: both ends cut alike, by its length and who they are."""
        piece = self.piece(region.count, peer)
        starts = range(0, region.count, piece) or (0,)
        return [
            Region(region.space, region.offset + start, min(piece, region.count - start))
            for start in starts
        ]
