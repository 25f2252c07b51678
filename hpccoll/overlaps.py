"""Regions that are found by what they overlap, without looking at all of them."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from hpccoll.layout import Region


class Overlaps:
    """A set of regions, each with a number of its own.

    Regions of one space whose lengths have equally many bits are sorted by their offsets: those
    that can overlap another region are neighbours there.
    """

    def __init__(self) -> None:
        self._sorted: dict[int, dict[int, list[tuple[int, int, int]]]] = {}

    def add(self, region: Region, number: int) -> None:
        """Add a region."""
        lengths = self._sorted.setdefault(region.space, {})
        entries = lengths.setdefault(region.count.bit_length(), [])
        insort(entries, (region.offset, number, region.count))

    def remove(self, region: Region, number: int) -> None:
        """Remove a region that was added with this number."""
        entries = self._sorted[region.space][region.count.bit_length()]
        del entries[bisect_left(entries, (region.offset, number, region.count))]

    def find(self, region: Region) -> Iterator[int]:
        """Yield the numbers of the regions that share an element with `region`."""
        end = region.offset + region.count
        for bits, entries in self._sorted.get(region.space, {}).items():
            index = bisect_left(entries, (region.offset - (1 << bits),))
            while index < len(entries) and (entry := entries[index])[0] < end:
                offset, number, count = entry
                if region.offset < offset + count:
                    yield number
                index += 1

    def any(self, region: Region) -> bool:
        """Tell whether some region shares an element with `region`."""
        return next(self.find(region), None) is not None
