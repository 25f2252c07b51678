"""The extension's table: a plan's instructions as rows of numbers."""

from collections.abc import Iterable, Sequence

from hpccoll.layout import USER, Region
from hpccoll.plan import Convert, Copy, Plan, PostRecv, PostSend, Reduce, Scale, Wait

SEND, RECEIVE, WAIT, REDUCE, WAIT_REDUCE, COPY, SCALE, CONVERT_IN, CONVERT_OUT, PROBE = range(10)
"""Operations, in the order of the extension's."""

Row = tuple[int, ...]


def rows(plan: Plan, itemsizes: Sequence[int]) -> tuple[list[Row], list[int]]:
    """Return the extension's table, and which instruction every row comes from.

    Parameters
    ----------
    itemsizes
        Bytes of an element of every space.
    """
    table: list[Row] = []
    origins: list[int] = []
    posted: dict[int, PostSend | PostRecv] = {}
    for number, step in enumerate(plan.instructions):
        if isinstance(step, PostSend | PostRecv):
            posted[step.slot] = step
        for row in _translated(step, itemsizes):
            after_wait = table and table[-1][0] == WAIT and origins[-1] == number - 1
            if after_wait and _reduces(step, posted[table[-1][1]]):
                # Receiving and reducing is one operation: other transports do it in one pass. It
                # counts as its wait, for that is where it may hang.
                table[-1] = (WAIT_REDUCE, table[-1][1], *row[2:])
                continue
            table.append(row)
            origins.append(number)
    return table, origins


def _reduces(step: object, message: PostSend | PostRecv) -> bool:
    """Tell whether a step is a reduction of what a message brings, or of its beginning."""
    if not isinstance(step, Reduce) or not isinstance(message, PostRecv):
        return False
    begins = [(region.space, region.offset) for region in (step.left, step.right)]
    return (message.region.space, message.region.offset) in begins


def _translated(step: object, itemsizes: Sequence[int]) -> Iterable[Row]:
    def row(
        operation: int,
        into: Region | None,
        left: Region | None,
        right: Region | None,
        length: int,
        message: PostSend | PostRecv | None = None,
    ) -> Row:
        def place(region: Region | None) -> tuple[int, int]:
            return (region.space, region.offset * itemsizes[region.space]) if region else (0, 0)

        posted = (message.slot, message.peer, message.channel) if message else (0, 0, 0)
        return (operation, *posted, *place(into), *place(left), *place(right), length)

    def size(region: Region) -> int:
        return region.count * itemsizes[region.space]

    if isinstance(step, PostSend):
        yield row(SEND, None, step.region, None, size(step.region), step)
    elif isinstance(step, PostRecv):
        yield row(RECEIVE, step.region, None, None, size(step.region), step)
    elif isinstance(step, Wait):
        for slot in step.slots:
            yield (WAIT, slot, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    elif isinstance(step, Reduce):
        yield row(REDUCE, step.into, step.left, step.right, step.into.count)
    elif isinstance(step, Copy):
        yield row(COPY, step.into, step.source, None, size(step.into))
    elif isinstance(step, Convert):
        operation = CONVERT_OUT if step.source.space < USER else CONVERT_IN
        yield row(operation, step.into, step.source, None, step.into.count)
    elif isinstance(step, Scale):
        yield row(SCALE, step.region, None, None, step.region.count)
