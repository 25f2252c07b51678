"""Schedules made of schedules."""

from collections.abc import Callable, Iterable, Sequence
from math import lcm
from typing import Protocol

from hpccoll.schedule import RIGHT, Blocks, Combine, Recv, Round, Rounds, Send, embed
from hpccoll.shapes import Folding

Generator = Callable[[int, int], Rounds]
Names = range | tuple[int, ...]

FINER = 16
"""How much finer than its parts' own grids the grid of a composed schedule is, at most."""


class Schedule(Protocol):
    """A schedule for any number of ranks, such as `hpccoll.choice.Choice`."""

    def grid(self, size: int, /) -> int:
        """Return the number of blocks that it names."""

    def schedule(self, rank: int, size: int, /) -> Rounds:
        """Return the rounds of one rank."""


def fold(
    inner: Generator,
    everything: Callable[[int], Blocks],
    back: Callable[[int, int], Blocks] | None = None,
    windows: Callable[[range, int], Blocks] | None = None,
    radix: int = 2,
) -> Generator:
    """Run a schedule of a reduction that needs a power of the radix on any number of ranks.

    As many groups of `radix` neighbours as it takes are folded (see `Folding`): each rank gives its
    whole vector to the leader of its group, which reduces it on the right (so that partial results
    cover contiguous ranks), and sits out. The leaders run `inner`.

    Parameters
    ----------
    everything
        ``size`` → the blocks of a whole vector.
    back
        ``(rank, size)`` → the blocks that a folded-out rank gets back at the end, if any.
    windows
        ``(blocks, size)`` → what a range of blocks of `inner` becomes; default: itself.
    """

    def folded(rank: int, size: int) -> Rounds:
        folding = Folding(size, radix)
        number = folding.number(rank)
        leader, *others = folding.group(number)
        if rank != leader:
            yield Round(Send(leader, everything(size)))
            if back:
                yield Round(Recv(leader, back(rank, size)))
            return
        if others:
            yield Round(*(Combine(other, everything(size), RIGHT) for other in others))
        yield from embed(
            inner(number, folding.core),
            ranks=folding.leader,
            windows=windows and (lambda part: windows(part, size)),
        )
        if others and back:
            yield Round(*(Send(other, back(other, size)) for other in others))

    return folded


def reverse(rounds: Iterable[Round], receive: type[Recv] | type[Combine]) -> Rounds:
    """Run a schedule of messages backwards: who sent receives with `receive`, who received sends.

    The reverse of an allgather is a reduce-scatter and that of a broadcast a reduction, with
    `Combine`; the other way round with `Recv`. Operands are reduced in no particular order.
    """
    for step in reversed(list(rounds)):
        yield Round(
            *(
                receive(action.peer, action.blocks, channel=action.channel)
                if isinstance(action, Send)
                else Send(action.peer, action.blocks, channel=action.channel)
                for action in reversed(step.actions)
                if isinstance(action, Send | Recv | Combine)
            )
        )


def rotate(generate: Generator, root: int, grid: int | None = None) -> Generator:
    """Let a schedule written for root 0 run with another root.

    Parameters
    ----------
    grid
        Number of blocks, where every rank owns as many of them: these are renamed, too.
    """

    def rotated(rank: int, size: int) -> Rounds:
        rounds = generate((rank - root) % size, size)
        shift = root * (grid // size) if grid else 0
        return embed(
            rounds,
            ranks=lambda v: (v + root) % size,
            blocks=(lambda b: (b + shift) % grid) if grid else None,
        )

    return rotated


def forward(generate: Generator, root: int, grid: int) -> Generator:
    """Let a reduction to rank 0 end at another root, with its operands in the order of the ranks.

    Parameters
    ----------
    grid
        Number of blocks of the vector.
    """

    def forwarded(rank: int, size: int) -> Rounds:
        yield from generate(rank, size)
        if rank == 0:
            yield Round(Send(root, range(grid)))
        elif rank == root:
            yield Round(Recv(0, range(grid)))

    return forwarded


def sparing(owner: int, rank: int, rounds: Rounds) -> Rounds:
    """Leave out of a schedule of plain messages those to a rank that has everything already."""
    for step in rounds:
        kept = (a for a in step.actions if (a.peer if isinstance(a, Send) else rank) != owner)
        yield Round(*kept, at=step.at)


def among(members: Sequence[int], rank: int, part: Schedule, shares: Sequence[Names]) -> Rounds:
    """Run a schedule among some of the ranks; the others do nothing.

    Parameters
    ----------
    members
        The ranks that take part, in the order in which `part` numbers them.
    shares
        What each natural block of `part` stands for: names of the larger schedule, or none. Blocks
        that `part` cuts into pieces cut these names as evenly.
    """
    if rank not in members:
        return
    pieces = part.grid(len(members)) // len(shares)

    def blocks(block: int) -> Blocks:
        share, piece = shares[block // pieces], block % pieces
        return share[len(share) * piece // pieces : len(share) * (piece + 1) // pieces]

    yield from embed(part.schedule(members.index(rank), len(members)), ranks=members, blocks=blocks)


def refined(*grids: int) -> int:
    """Return a grid that contains the borders of all `grids`, if that isn't too fine.

    Else it contains those of the largest, and the pieces of the others are nearly equal.
    """
    return min(lcm(*grids), FINER * max(grids))
