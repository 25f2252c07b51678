"""Schedules made of schedules."""

from collections.abc import Callable

from hpccoll.schedule import RIGHT, Blocks, Combine, Recv, Round, Rounds, Send, embed
from hpccoll.shapes import power_of_two_below

Generator = Callable[[int, int], Rounds]


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
