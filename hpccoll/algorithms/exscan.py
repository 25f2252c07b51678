"""Exclusive scan: rank r ends with the reduced vectors of the ranks before it."""

from hpccoll.registry import algorithm
from hpccoll.schedule import DATA, LEFT, Copy, Recv, Reduce, Round, Rounds, Send


@algorithm("exscan", blocks=1, rounds="p-1", messages="1*(p>1)", sent="n*(p>1)", reduced="n*(p>2)")
def linear(rank: int, size: int) -> Rounds:
    """Pass the sum of all ranks before on to the next rank.

    References
    ----------
    MPI Forum, MPI: A Message-Passing Interface Standard 4.1, 2023, section 6.11.
    """
    # Scratch has what is passed on: the own vector, and on its left what came from before.
    onward = 1
    if rank == 0:
        yield from (Round(Send(1, 0)) for _ in range(size > 1))
        return
    if rank + 1 == size:
        yield Round(Recv(rank - 1, 0))
        return
    yield Round(Copy(0, onward, DATA))
    yield Round(Recv(rank - 1, 0))
    yield Round(Reduce(0, onward, DATA, LEFT))
    yield Round(Send(rank + 1, 0, buffer=onward))
