"""The collectives: what every rank holds before and must hold after, and what "size" means.

A collective is a contract about blocks. Ranks are numbered 0 to ``size - 1`` and every contract is
stated for any root; an algorithm never sees it, only the verifier, the planner and the checks do.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hpccoll.errors import UsageError, unknown

ALL = "all"
OWNER = "owner"
ROOT = "root"
UP_TO = "up to"
BEFORE = "before"
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Collective:
    """Contract and conventions of one collective.

    Attributes
    ----------
    held, wanted
        Natural blocks that ``(rank, size, root, blocks)`` has before and must have after the call,
        in the order in which they lie in its buffer.
    contributors
        Whose input a finished block holds, reduced: `ALL` ranks', that of the ranks `UP_TO` its
        holder or `BEFORE` it; or unreduced: its `OWNER`'s or the `ROOT`'s; or `NOBODY`'s, where
        there is no data.
    bytes_are
        What the reported size counts, in words.
    busbw
        Bus bandwidth divided by algorithm bandwidth, a closed form in p (as nccl-tests defines it).
    in_place
        What ``--in-place`` means, in words.
    baseline
        The MPI function that it is compared with: where all ranks' blocks are equal, and where not.
    replacing
        The function that it is compared with in place, where MPI has another one for that.
    natural
        Blocks that the caller sees, by the number of ranks.
    vectors
        The full vector is as many times one rank's vector, by the number of ranks.
    irregular
        Blocks belong to ranks, and the caller may choose their sizes (the ``v`` forms of MPI).
    one_buffer
        The call has a single buffer, so it is always in place.
    stays
        In place, the result stays where it lies in the input instead of moving to its start.
    """

    name: str
    held: Callable[[int, int, int, int], range]
    wanted: Callable[[int, int, int, int], range]
    contributors: str
    bytes_are: str
    busbw: str
    in_place: str
    baseline: tuple[str, str]
    replacing: str = ""
    natural: Callable[[int], int] = lambda size: size
    vectors: Callable[[int], int] = lambda size: 1
    rooted: bool = False
    irregular: bool = False
    one_buffer: bool = False
    stays: bool = False

    @property
    def baselines(self) -> str:
        """Return the baseline in words."""
        even, uneven = self.baseline
        if self.replacing:
            return f"{even}, or {self.replacing} in place"
        return even if even == uneven else f"{even}, or {uneven} where blocks differ in size"

    @property
    def reduces(self) -> bool:
        """Tell whether the collective has an operator."""
        return self.contributors in (ALL, UP_TO, BEFORE)

    @property
    def averages(self) -> bool:
        """Tell whether the result can be divided by the number of ranks: all have contributed."""
        return self.contributors == ALL

    @property
    def moves_data(self) -> bool:
        """Tell whether the collective has a size: a barrier has none."""
        return self.contributors != NOBODY

    def sources(self, rank: int, size: int, root: int, block: int, blocks: int) -> range:
        """Return the ranks whose input `block` of `blocks` holds on `rank` at the end."""
        if self.contributors == OWNER:
            owner = block * size // blocks
            return range(owner, owner + 1)
        return {
            ALL: range(size),
            UP_TO: range(rank + 1),
            BEFORE: range(rank),
            ROOT: range(root, root + 1),
        }[self.contributors]


def _everything(_rank: int, _size: int, _root: int, blocks: int) -> range:
    return range(blocks)


def _nothing(_rank: int, _size: int, _root: int, _blocks: int) -> range:
    return range(0)


def _own(rank: int, _size: int, _root: int, _blocks: int) -> range:
    return range(rank, rank + 1)


def _from_own(rank: int, size: int, _root: int, _blocks: int) -> range:
    return range(rank * size, (rank + 1) * size)


def _from_left(rank: int, size: int, _root: int, _blocks: int) -> range:
    left = (rank - 1) % size
    return range(left * size, (left + 1) * size)


def _to_own(rank: int, size: int, _root: int, _blocks: int) -> range:
    return range(rank, size * size, size)


def _but_on_first(rank: int, _size: int, _root: int, blocks: int) -> range:
    return range(blocks if rank else 0)


def _at_root(rank: int, _size: int, root: int, blocks: int) -> range:
    return range(blocks if rank == root else 0)


COLLECTIVES = {
    collective.name: collective
    for collective in (
        Collective(
            "allreduce",
            held=_everything,
            wanted=_everything,
            contributors=ALL,
            bytes_are="bytes of one rank's vector",
            busbw="2*(p-1)/p",
            in_place="input and result share one buffer (MPI_IN_PLACE)",
            baseline=("MPI_Allreduce", "MPI_Allreduce"),
        ),
        Collective(
            "reduce-scatter",
            held=_everything,
            wanted=_own,
            contributors=ALL,
            bytes_are="bytes of one rank's whole input vector; its result is 1/p of that",
            busbw="(p-1)/p",
            in_place="the input's buffer receives the result block at its start (MPI_IN_PLACE)",
            baseline=("MPI_Reduce_scatter_block", "MPI_Reduce_scatter"),
            irregular=True,
        ),
        Collective(
            "allgather",
            held=_own,
            wanted=_everything,
            contributors=OWNER,
            bytes_are="bytes of the whole gathered vector; each rank contributes 1/p of that",
            busbw="(p-1)/p",
            in_place="the contribution already lies at its place in the result (MPI_IN_PLACE)",
            baseline=("MPI_Allgather", "MPI_Allgatherv"),
            irregular=True,
        ),
        Collective(
            "bcast",
            held=_at_root,
            wanted=_everything,
            contributors=ROOT,
            bytes_are="bytes of the root's vector",
            busbw="1",
            in_place="always: a broadcast has one buffer",
            baseline=("MPI_Bcast", "MPI_Bcast"),
            rooted=True,
            one_buffer=True,
        ),
        Collective(
            "reduce",
            held=_everything,
            wanted=_at_root,
            contributors=ALL,
            bytes_are="bytes of one rank's vector",
            busbw="1",
            in_place="the root's input and result share one buffer (MPI_IN_PLACE at the root)",
            baseline=("MPI_Reduce", "MPI_Reduce"),
            rooted=True,
        ),
        Collective(
            "gather",
            held=_own,
            wanted=_at_root,
            contributors=OWNER,
            bytes_are="bytes of the whole gathered vector; each rank contributes 1/p of that",
            busbw="(p-1)/p",
            in_place="the root's contribution lies at its place in the result "
            "(MPI_IN_PLACE at the root)",
            baseline=("MPI_Gather", "MPI_Gatherv"),
            rooted=True,
            irregular=True,
        ),
        Collective(
            "scatter",
            held=_at_root,
            wanted=_own,
            contributors=ROOT,
            bytes_are="bytes of the root's whole vector; each rank receives 1/p of that",
            busbw="(p-1)/p",
            in_place="the root's block stays in its input (MPI_IN_PLACE at the root)",
            baseline=("MPI_Scatter", "MPI_Scatterv"),
            rooted=True,
            irregular=True,
            stays=True,
        ),
        Collective(
            "alltoall",
            held=_from_own,
            wanted=_to_own,
            contributors=OWNER,
            bytes_are="bytes of one rank's whole input; 1/p of that goes to each rank",
            busbw="(p-1)/p",
            in_place="what is received replaces what was sent (MPI_IN_PLACE)",
            baseline=("MPI_Alltoall", "MPI_Alltoallv"),
            natural=lambda size: size * size,
            vectors=lambda size: size,
            irregular=True,
        ),
        Collective(
            "scan",
            held=_everything,
            wanted=_everything,
            contributors=UP_TO,
            bytes_are="bytes of one rank's vector",
            busbw="1",
            in_place="input and result share one buffer (MPI_IN_PLACE)",
            baseline=("MPI_Scan", "MPI_Scan"),
        ),
        Collective(
            "exscan",
            held=_everything,
            wanted=_but_on_first,
            contributors=BEFORE,
            bytes_are="bytes of one rank's vector; rank 0 has no result",
            busbw="1",
            in_place="input and result share one buffer (MPI_IN_PLACE)",
            baseline=("MPI_Exscan", "MPI_Exscan"),
        ),
        Collective(
            "sendrecv",
            held=_from_own,
            wanted=_from_left,
            contributors=OWNER,
            bytes_are="bytes that every rank sends to the right and receives from the left",
            busbw="1",
            in_place="what is received replaces what was sent",
            baseline=("MPI_Sendrecv", "MPI_Sendrecv"),
            replacing="MPI_Sendrecv_replace",
            natural=lambda size: size * size,
            vectors=lambda size: size,
        ),
        Collective(
            "barrier",
            held=_nothing,
            wanted=_nothing,
            contributors=NOBODY,
            bytes_are="always 0: a barrier moves no data",
            busbw="0",
            in_place="never: a barrier has no buffers",
            baseline=("MPI_Barrier", "MPI_Barrier"),
            natural=lambda size: 1,
        ),
    )
}
"""Every collective by its name."""


def collective(name: str) -> Collective:
    """Return the collective called `name`.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    try:
        return COLLECTIVES[name]
    except KeyError:
        raise UsageError(unknown("collective", name, COLLECTIVES)) from None
