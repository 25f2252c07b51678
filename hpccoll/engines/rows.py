"""The extension's table: a plan's instructions as rows of numbers."""

from collections.abc import Iterable

from hpccoll.layout import OUTPUT, Region
from hpccoll.plan import Copy, Plan, PostRecv, PostSend, Reduce, Scale, Wait

SEND, RECEIVE, WAIT, REDUCE, WAIT_REDUCE, COPY, SCALE, CONVERT_IN, CONVERT_OUT, PROBE = range(10)
"""Operations, in the order of the extension's."""

Row = tuple[int, ...]


def rows(plan: Plan, itemsize: int, narrow: int = 0) -> tuple[list[Row], list[int]]:
    """Return the extension's table, and which instruction every row comes from.

    Parameters
    ----------
    itemsize, narrow
        Bytes of a partial result, and of the caller's element if that has another type.
    """
    table: list[Row] = []
    origins: list[int] = []
    place = plan.layout
    if narrow:
        source = Region(3 + (place.held.space == OUTPUT), place.held.offset, place.held.count)
        table.append(_row(CONVERT_IN, place.held, source, None, place.held.count, itemsize, narrow))
        origins.append(0)
    posted: dict[int, PostSend | PostRecv] = {}
    for number, step in enumerate(plan.instructions):
        if isinstance(step, PostSend | PostRecv):
            posted[step.slot] = step
        for row in _translated(step, itemsize):
            after_wait = table and table[-1][0] == WAIT and origins[-1] == number - 1
            if after_wait and _reduces(step, posted[table[-1][1]]):
                # Receiving and reducing is one operation: other transports do it in one pass. It
                # counts as its wait, for that is where it may hang.
                table[-1] = (WAIT_REDUCE, table[-1][1], *row[2:])
                continue
            table.append(row)
            origins.append(number)
    if narrow:
        target = Region(4, place.result.offset, place.result.count)
        table.append(_row(CONVERT_OUT, target, place.result, None, target.count, itemsize, narrow))
        origins.append(len(plan.instructions) - 1)
    return table, origins


def _reduces(step: object, message: PostSend | PostRecv) -> bool:
    """Tell whether a step is a reduction of what a message brings, or of its beginning."""
    if not isinstance(step, Reduce) or not isinstance(message, PostRecv):
        return False
    begins = [(region.space, region.offset) for region in (step.left, step.right)]
    return (message.region.space, message.region.offset) in begins


def _translated(step: object, itemsize: int) -> Iterable[Row]:
    if isinstance(step, PostSend):
        length = step.region.count * itemsize
        yield _row(SEND, None, step.region, None, length, itemsize, 0, step)
    elif isinstance(step, PostRecv):
        length = step.region.count * itemsize
        yield _row(RECEIVE, step.region, None, None, length, itemsize, 0, step)
    elif isinstance(step, Wait):
        for slot in step.slots:
            yield (WAIT, slot, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    elif isinstance(step, Reduce):
        yield _row(REDUCE, step.into, step.left, step.right, step.into.count, itemsize)
    elif isinstance(step, Copy):
        yield _row(COPY, step.into, step.source, None, step.into.count * itemsize, itemsize)
    elif isinstance(step, Scale):
        yield _row(SCALE, step.region, None, None, step.region.count, itemsize)


def _row(
    operation: int,
    into: Region | None,
    left: Region | None,
    right: Region | None,
    length: int,
    itemsize: int,
    narrow: int = 0,
    message: PostSend | PostRecv | None = None,
) -> Row:
    def place(region: Region | None) -> tuple[int, int]:
        if region is None:
            return 0, 0
        # Spaces from 3 on are the caller's.
        return region.space, region.offset * (narrow if region.space > 2 else itemsize)

    posted = (message.slot, message.peer, message.channel) if message else (0, 0, 0)
    return (operation, *posted, *place(into), *place(left), *place(right), length)
