"""The vocabulary of schedules: what one rank sends, receives, reduces and copies, round by round.

A schedule is an iterator of `Round`. In one round (1) all sends read the values of its start, (2)
all messages complete and plain receives land, (3) `Combine`, `Reduce` and `Copy` act in the order
written. The i-th `Send` of rank a to rank b on a channel meets the i-th `Recv` or `Combine` of b
from a on that channel; round numbers of two ranks need not agree. A message that names no block is
a signal and is always sent; one whose blocks are all empty is dropped on both sides.

Blocks are named by what they are, not by where they lie. Everything is written as if it happened
in place on the buffer `DATA`; scratch buffers 1, 2, … are shadows of it with the same names and
sizes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from hpccoll.errors import VerificationError

Blocks: TypeAlias = "int | range | tuple[int | range, ...]"
Ranges: TypeAlias = tuple[range, ...]

DATA = 0
"""The buffer that holds the collective's data; scratch buffers are numbered from 1."""

Side: TypeAlias = Literal["left", "right"]
LEFT: Side = "left"
RIGHT: Side = "right"


def _pieces(parts: Iterable[int | range]) -> Iterator[range]:
    for part in parts:
        if isinstance(part, range) and part.step == 1:
            yield part
        else:
            yield from (range(b, b + 1) for b in ((part,) if isinstance(part, int) else part))


def ranges(blocks: Blocks) -> Ranges:
    """Return `blocks` as ranges of step 1, adjacent ones joined, in the order given.

    >>> ranges((0, 1, range(4, 6), 6))
    (range(0, 2), range(4, 7))
    """
    if isinstance(blocks, range) and blocks.step == 1:  # most are, and all is made of them
        return (blocks,) if blocks else ()
    joined: list[range] = []
    for piece in _pieces(blocks if isinstance(blocks, tuple) else (blocks,)):
        if not piece:
            continue
        if joined and joined[-1].stop == piece.start:
            joined[-1] = range(joined[-1].start, piece.stop)
        else:
            joined.append(piece)
    return tuple(joined)


def span(start: int, count: int, modulus: int) -> Ranges:
    """Return `count` blocks from `start` on, wrapping around at `modulus`: at most two ranges.

    >>> span(4, 3, 6)
    (range(4, 6), range(0, 1))
    """
    start %= modulus
    stop = start + count
    return ranges((range(start, min(stop, modulus)), range(0, max(0, stop - modulus))))


@dataclass(frozen=True, slots=True)
class Send:
    """Send `blocks` of `buffer` to `peer`."""

    peer: int
    blocks: Blocks = ()
    buffer: int = DATA
    channel: int = 0


@dataclass(frozen=True, slots=True)
class Recv:
    """Receive `blocks` from `peer`; they overwrite those of `buffer`."""

    peer: int
    blocks: Blocks = ()
    buffer: int = DATA
    channel: int = 0


@dataclass(frozen=True, slots=True)
class Combine:
    """Receive `blocks` from `peer` and reduce them into `buffer`.

    `side` is the side on which the *received* operand stands: `LEFT` gives ``received op own``.
    """

    peer: int
    blocks: Blocks
    side: Side = LEFT
    buffer: int = DATA
    channel: int = 0


@dataclass(frozen=True, slots=True)
class Reduce:
    """Reduce `blocks` of buffer `source` into buffer `into`; `side` is the side of `source`."""

    blocks: Blocks
    into: int
    source: int
    side: Side = LEFT


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy `blocks` of buffer `source` to buffer `into`."""

    blocks: Blocks
    into: int
    source: int


Message: TypeAlias = Send | Recv | Combine
Action: TypeAlias = Send | Recv | Combine | Reduce | Copy


@dataclass(frozen=True, slots=True)
class Round:
    """Actions that one rank posts together and completes together.

    `at` is the round's clock (default: the previous round's plus one). Clocks are promised only by
    schedules declared ``clocked``, and only those may be merged.
    """

    actions: tuple[Action, ...]
    at: int | None

    def __init__(self, *actions: Action, at: int | None = None) -> None:
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "at", at)


Rounds: TypeAlias = Iterator[Round]


def clocked(rounds: Iterable[Round]) -> Iterator[tuple[int, Round]]:
    """Yield every round with its clock."""
    clock = -1
    for step in rounds:
        clock = clock + 1 if step.at is None else step.at
        yield clock, step


def embed(
    rounds: Iterable[Round],
    *,
    ranks: Callable[[int], int] | Sequence[int] | None = None,
    blocks: Callable[[int], Blocks] | None = None,
    windows: Callable[[range], Blocks] | None = None,
    channel: int = 0,
    buffer: int = 0,
    at: int | None = None,
) -> Rounds:
    """Translate a schedule into a larger one.

    Parameters
    ----------
    ranks
        Maps the peers of `rounds`, as a function or a sequence; default: unchanged.
    blocks
        Maps each block name to the names that it becomes, none included: an action whose names all
        vanish is dropped, on both sides of a message alike.
    windows
        The same for whole ranges of names, where they map to few: instead of `blocks`.
    channel, buffer
        Are added to channels and to the numbers of scratch buffers.
    at
        Is added to the clock of every round; default: clocks are left as they are.
    """
    peer = ranks if callable(ranks) or ranks is None else ranks.__getitem__
    if blocks is not None:
        windows = _each(blocks)

    def shifted(number: int) -> int:
        return number + buffer if number != DATA else DATA

    def moved(action: Action) -> Action | None:
        names = action.blocks
        if windows is not None and (old := ranges(names)):
            names = tuple(piece for part in old for piece in ranges(windows(part)))
            if not names:
                return None
        if isinstance(action, Reduce | Copy):
            into, source = shifted(action.into), shifted(action.source)
            return replace(action, blocks=names, into=into, source=source)
        to = action.peer if peer is None else peer(action.peer)
        into, over = shifted(action.buffer), action.channel + channel
        if isinstance(action, Combine):
            return Combine(to, names, action.side, into, over)
        return type(action)(to, names, into, over)

    for clock, step in clocked(rounds):
        actions = tuple(new for old in step.actions if (new := moved(old)) is not None)
        yield Round(*actions, at=step.at if at is None else at + clock)


def _each(blocks: Callable[[int], Blocks]) -> Callable[[range], Blocks]:
    return lambda part: tuple(piece for b in part for piece in ranges(blocks(b)))


def merge(*schedules: Iterable[Round]) -> Rounds:
    """Run clocked schedules side by side: rounds of the same clock become one round."""
    streams = [clocked(rounds) for rounds in schedules]
    heads = [next(stream, None) for stream in streams]
    while waiting := [head for head in heads if head is not None]:
        now = min(clock for clock, _ in waiting)
        actions: list[Action] = []
        for i, head in enumerate(heads):
            if head is None or head[0] != now:
                continue
            actions += head[1].actions
            heads[i] = after = next(streams[i], None)
            if after is not None and after[0] <= now:
                raise VerificationError(
                    f"clock {after[0]} follows clock {now} in a merged schedule"
                )
        yield Round(*actions, at=now)
