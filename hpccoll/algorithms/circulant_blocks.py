"""The schedule of a broadcast of many blocks on a circulant graph, in the fewest rounds possible.

References
----------
Träff, arXiv:2407.18004.
"""

from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import pairwise

from hpccoll.schedule import Action, Recv, Round, Rounds, Send
from hpccoll.shapes import circulant_skips


def broadcast(rank: int, size: int, blocks: int) -> Rounds:
    """Send and receive one of `blocks` blocks per round; every rank receives each block once.

    Rounds come in phases, in which each of the skips is used once and brings each rank one new
    block. What a phase would bring before the first block isn't sent; after the last it's the last.
    """
    *skips, _ = circulant_skips(size)
    rounds = blocks - 1 + len(skips)
    early = -rounds % max(1, len(skips))

    def block(receiver: int, clock: int) -> int:
        phase, i = divmod(clock, len(skips))
        name = _receives(receiver, size)[i] + len(skips) * phase - early
        return min(name, blocks - 1) if receiver else -1

    for clock in range(early, early + rounds) if skips else ():
        skip = skips[clock % len(skips)]
        to, source = (rank + skip) % size, (rank - skip) % size
        actions: list[Action] = []
        if (name := block(to, clock)) >= 0:
            actions.append(Send(to, name))
        if (name := block(rank, clock)) >= 0:
            actions.append(Recv(source, name))
        if actions:
            yield Round(*actions, at=clock - early)


@lru_cache(maxsize=1 << 16)
def _receives(rank: int, size: int) -> tuple[int, ...]:
    """Return the block that a rank receives in each round of the first phase; negative: none.

    A rank's base block is the first that comes to it. Through each skip it receives the newest
    base block there that it hasn't had: those of ranks nearer than the next skip, or at it.
    """
    skips = circulant_skips(size)
    phase = len(skips) - 1
    own = _base_blocks(skips, rank, rank + 1)
    had = own if rank else 0
    received = []
    for skip, reach in pairwise(skips):
        new = _behind(skips, rank, skip, reach) & ~had
        new = new or _behind(skips, rank, reach, reach + 1) & ~had
        newest = new.bit_length() - 1
        had |= 1 << newest
        received.append(own.bit_length() - 1 if newest == phase else newest - phase)
    return tuple(received)


def _behind(skips: tuple[int, ...], rank: int, least: int, beyond: int) -> int:
    """Return the base blocks of the ranks `least` to ``beyond - 1`` before a rank."""
    size = skips[-1]
    start, stop = rank - beyond + 1, rank - least + 1
    before = _base_blocks(skips, start % size, min(stop, 0) + size) if start < 0 else 0
    return before | _base_blocks(skips, max(start, 0), stop)


def _base_blocks(skips: tuple[int, ...], start: int, stop: int) -> int:
    """Return the base blocks of the ranks from `start` to ``stop - 1``, as a bit mask.

    A rank is a sum of different skips, the largest possible taken first; its base block is the
    number of the smallest of these. The root's is the number after the last skip's.
    """
    if start >= stop:
        return 0
    if start == 0:
        return 1 << len(skips) - 1 | _base_blocks(skips, 1, stop)
    if start == 1:
        return (1 << bisect_left(skips, stop)) - 1
    k = bisect_right(skips, start) - 1
    if stop > skips[k + 1]:
        return _base_blocks(skips, start, skips[k + 1]) | _base_blocks(skips, skips[k + 1], stop)
    if start == skips[k]:
        return 1 << k | _base_blocks(skips, start + 1, stop)
    return _base_blocks(skips, start - skips[k], stop - skips[k])
