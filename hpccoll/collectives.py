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


@dataclass(frozen=True, slots=True)
class Collective:
    """Contract and conventions of one collective.

    Attributes
    ----------
    held, wanted
        Natural blocks that ``(rank, size, root, blocks)`` has before and must have after the call.
    contributors
        Whose input a finished block holds: `ALL` ranks' (reduced), its `OWNER`'s, or the `ROOT`'s.
    bytes_are
        What the reported size counts, in words.
    busbw
        Bus bandwidth divided by algorithm bandwidth, a closed form in p (as nccl-tests defines it).
    in_place
        What ``--in-place`` means, in words.
    baseline
        The MPI function that it is compared with: where all ranks' blocks are equal, and where not.
    one_buffer
        The call has a single buffer, so it is always in place.
    """

    name: str
    held: Callable[[int, int, int, int], range]
    wanted: Callable[[int, int, int, int], range]
    contributors: str
    bytes_are: str
    busbw: str
    in_place: str
    baseline: tuple[str, str]
    rooted: bool = False
    one_buffer: bool = False

    @property
    def baselines(self) -> str:
        """Return the baseline in words."""
        even, uneven = self.baseline
        return even if even == uneven else f"{even}, or {uneven} where p doesn't divide the count"

    @property
    def reduces(self) -> bool:
        """Tell whether the collective has an operator."""
        return self.contributors == ALL


def _everything(_rank: int, _size: int, _root: int, blocks: int) -> range:
    return range(blocks)


def _own(rank: int, _size: int, _root: int, _blocks: int) -> range:
    return range(rank, rank + 1)


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
