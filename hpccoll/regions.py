"""Arithmetic on regions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hpccoll.layout import Region


def joined(regions: Iterable[Region]) -> list[Region]:
    """Join neighbours that lie side by side, and leave out empty regions."""
    result: list[Region] = []
    for region in regions:
        last = result[-1] if result else None
        if last and (last.space, last.offset + last.count) == (region.space, region.offset):
            result[-1] = Region(last.space, last.offset, last.count + region.count)
        elif region.count:
            result.append(region)
    return result


def cut(whole: Region, like: Sequence[Region]) -> list[Region]:
    """Cut a region into consecutive pieces of the sizes of `like`."""
    pieces, offset = [], whole.offset
    for region in like:
        pieces.append(Region(whole.space, offset, region.count))
        offset += region.count
    return pieces


def aligned(*lists: Sequence[Region]) -> list[tuple[Region, ...]]:
    """Cut lists of regions of the same total size at each other's borders."""
    if all(len(regions) == 1 for regions in lists):
        return [tuple(regions[0] for regions in lists)]
    borders: set[int] = set()
    for regions in lists:
        total = 0
        for region in regions:
            total += region.count
            borders.add(total)
    columns = []
    for regions in lists:
        pieces, position = [], 0
        for region in regions:
            end = position + region.count
            cuts = sorted({position, *(b for b in borders if position < b < end), end})
            pieces += [
                Region(region.space, region.offset + low - position, high - low)
                for low, high in pairwise(cuts)
            ]
            position = end
        columns.append(pieces)
    return list(zip(*columns, strict=True))


class Parts:
    """Disjoint parts of some spaces."""

    def __init__(self, *regions: Region) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for region in regions:
            self.add(region)

    def common(self, region: Region) -> list[Region]:
        """Return the parts of a region that are among these."""
        found = (
            (max(low, region.offset), min(high, region.offset + region.count))
            for low, high in self._spans[region.space]
        )
        return [Region(region.space, low, high - low) for low, high in found if low < high]

    def add(self, region: Region) -> None:
        """Add a region, joined to what it touches."""
        low, high = region.offset, region.offset + region.count
        if low == high:
            return
        touched = [s for s in self._spans[region.space] if s[0] <= high and low <= s[1]]
        apart = [s for s in self._spans[region.space] if s not in touched]
        low, high = min([low, *(s[0] for s in touched)]), max([high, *(s[1] for s in touched)])
        self._spans[region.space] = sorted([*apart, (low, high)])

    def remove(self, region: Region) -> None:
        """Take a region away."""
        low, high = region.offset, region.offset + region.count
        pieces = (
            piece
            for first, last in self._spans[region.space]
            for piece in ((first, min(last, low)), (max(first, high), last))
        )
        self._spans[region.space] = sorted({(a, b) for a, b in pieces if a < b})

    def missing(self, region: Region) -> list[Region]:
        """Return the parts of a region that aren't among these."""
        rest = Parts(region)
        for part in self.common(region):
            rest.remove(part)
        return rest.common(region)
