"""Arithmetic on lists of regions."""

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
