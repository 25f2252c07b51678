"""Schedules made of schedules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Protocol

from hpccoll.schedule import RIGHT, Blocks, Combine, Recv, Round, Rounds, Send, embed
from hpccoll.shapes import power_of_two_below

Generator = Callable[[int, int], Rounds]
Names = range | tuple[int, ...]

FINER = 16
"""How much finer than its parts' own grids the grid of a composed schedule is, at most."""


class Schedule(Protocol):
    """A schedule for any number of ranks, such as `hpccoll.registry.Choice`."""

    def grid(self, size: int, /) -> int:
        """Return the number of blocks that it names."""

    def schedule(self, rank: int, size: int, /) -> Rounds:
        """Return the rounds of one rank."""


@dataclass(frozen=True, slots=True)
class PerRank:
    """A bare generator as a `Schedule` that names one block per rank."""

    generate: Generator

    def grid(self, size: int) -> int:
        """Return the number of blocks, which is that of the ranks."""
        return size

    def schedule(self, rank: int, size: int) -> Rounds:
        """Return the rounds of one rank."""
        return self.generate(rank, size)


def fold(
    inner: Generator,
    everything: Callable[[int], Blocks],
    back: Callable[[int, int], Blocks] | None = None,
    blocks: Callable[[int, int, int], Blocks] | None = None,
) -> Generator:
    """Run a power-of-two schedule of a reduction on any number of ranks.

    Of the first ``2 * (size - core)`` ranks each odd one gives its whole vector to its left
    neighbour, which reduces it on the right (so that partial results cover contiguous ranks), and
    sits out. The others are numbered 0 to ``core - 1`` in order and run `inner`.

    Parameters
    ----------
    everything
        ``size`` → the blocks of a whole vector.
    back
        ``(rank, size)`` → the blocks that a folded-out rank gets back at the end, if any.
    blocks
        ``(block, core, size)`` → what a block of `inner` becomes; default: itself.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521, section 4.
    """

    def folded(rank: int, size: int) -> Rounds:
        core = power_of_two_below(size)
        extra = size - core
        paired = rank < 2 * extra
        if paired and rank % 2:
            yield Round(Send(rank - 1, everything(size)))
            if back:
                yield Round(Recv(rank - 1, back(rank, size)))
            return
        if paired:
            yield Round(Combine(rank + 1, everything(size), RIGHT))
        yield from embed(
            inner(rank // 2 if paired else rank - extra, core),
            ranks=lambda v: v + min(v, extra),
            blocks=blocks and (lambda b: blocks(b, core, size)),
        )
        if paired and back:
            yield Round(Send(rank + 1, back(rank + 1, size)))

    return folded


def rotate(generate: Generator, root: int) -> Generator:
    """Let a schedule written for root 0 run with another root."""

    def rotated(rank: int, size: int) -> Rounds:
        rounds = generate((rank - root) % size, size)
        return embed(rounds, ranks=lambda v: (v + root) % size)

    return rotated


def backwards(generate: Generator) -> Generator:
    """Turn a schedule of plain messages round: a scatter becomes a gather."""

    def turned(rank: int, size: int) -> Rounds:
        for step in reversed([*generate(rank, size)]):
            yield Round(
                *(
                    (Recv if isinstance(action, Send) else Send)(action.peer, action.blocks)
                    for action in step.actions
                    if isinstance(action, Send | Recv)
                )
            )

    return turned


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
