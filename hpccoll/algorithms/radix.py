"""Exchanges in groups of several ranks per round: recursive doubling and halving, generalised.

Ranks are numbers with one digit per round; a round's groups are the ranks that differ in its digit
only. Where the number of ranks is not a power of the radix, groups of neighbours are folded first.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import partial

from hpccoll.algorithms.groups import gather, reduce_in_order
from hpccoll.combinators import fold, reverse
from hpccoll.registry import algorithm
from hpccoll.schedule import Combine, Recv, Round, Rounds, Send
from hpccoll.shapes import (
    Folding,
    ceil_log,
    factored,
    parts,
    power_below,
    prime_factors,
    radix_within,
    rotated,
)


def _groups(rank: int, factors: Sequence[int]) -> Iterator[range]:
    """Yield the group that `rank` is in for each factor, nearest ranks first."""
    distance = 1
    for factor in factors:
        digit = rank // distance % factor
        first = rank - digit * distance
        yield range(first, first + factor * distance, distance)
        distance *= factor


def _digits(size: int, radix: int) -> tuple[int, ...]:
    return (radix,) * ceil_log(size, radix)


def _multiply(rank: int, factors: Sequence[int]) -> Rounds:
    for group in _groups(rank, factors):
        yield reduce_in_order(rank, group, lambda place: 0)


@algorithm(
    "allreduce",
    name="recursive-multiplying",
    minimum={"radix": 2},
    blocks=1,
    rounds="l + 2*(p>P)",
    messages="(k-1)*l + min(k-1, e)",
    sent="n*(k-1)*l + n*min(k-1, e)",
    reduced="n*(k-1)*l + n*min(k-1, e)",
)
def allreduce_multiplying(rank: int, size: int, radix: int = 4) -> Rounds:
    """Exchange and reduce whole vectors in groups of `radix` ranks.

    References
    ----------
    Wilkins, Guo, Thakur, Dinda, Hardavellas, IEEE CLUSTER 2023,
    doi:10.1109/CLUSTER52292.2023.00013.
    """
    radix = radix_within(size, radix)

    def core(rank: int, size: int) -> Rounds:
        return _multiply(rank, _digits(size, radix))

    return fold(core, lambda size: 0, back=lambda rank, size: 0, radix=radix)(rank, size)


@algorithm(
    "allreduce",
    minimum={"factors": 2},
    requires=factored,
    blocks=1,
    rounds="len(factors)",
    messages="sum(factors) - len(factors)",
    sent="n*(sum(factors) - len(factors))",
    reduced="n*(sum(factors) - len(factors))",
)
def mixed_radix(rank: int, size: int, factors: tuple[int, ...] = ()) -> Rounds:
    """Exchange and reduce whole vectors in groups of as many ranks as each factor of p says.

    The default is the prime factors of p, the smallest first. Nothing needs to be folded.

    References
    ----------
    Wilkins, Guo, Thakur, Dinda, Hardavellas, IEEE CLUSTER 2023,
    doi:10.1109/CLUSTER52292.2023.00013.
    """
    return _multiply(rank, factors or prime_factors(size))


def _windows(
    rank: int, size: int, factors: Sequence[int]
) -> Generator[Round, None, list[tuple[range, tuple[range, ...]]]]:
    """Reduce one of as many parts of the window as each factor says, in the order of the ranks.

    Returns
    -------
    list of (group, parts)
        Who exchanged what: the i-th member of the group kept the i-th part.
    """
    window = range(size)
    path = []
    for factor, group in zip(factors, _groups(rank, factors), strict=True):
        pieces = parts(window, factor)
        yield reduce_in_order(rank, group, pieces.__getitem__)
        window = pieces[group.index(rank)]
        path.append((group, pieces))
    return path


def _reduce_scatter_allgather(rank: int, size: int, factors: Sequence[int]) -> Rounds:
    path = yield from _windows(rank, size, factors)
    for group, pieces in reversed(path):
        yield gather(rank, group, pieces.__getitem__)


def _core(size: int, radix: int) -> int:
    return power_below(size, radix_within(size, radix))


@algorithm(
    "allreduce",
    minimum={"radix": 2},
    blocks=_core,
    rounds="2*l + 2*(p>P)",
    messages="2*(k-1)*l + min(k-1, e)",
    sent="2*n*(P-1)/P + n*min(k-1, e)",
    reduced="n*(P-1)/P + n*min(k-1, e)",
)
def k_reduce_scatter_allgather(rank: int, size: int, radix: int = 4) -> Rounds:
    """Reduce-scatter, then allgather, in groups of `radix` ranks.

    With radix 2 these are the messages of Rabenseifner's algorithm.

    References
    ----------
    Wilkins, Guo, Thakur, Dinda, Hardavellas, IEEE CLUSTER 2023,
    doi:10.1109/CLUSTER52292.2023.00013.
    """
    radix = radix_within(size, radix)
    everything = range(_core(size, radix))

    def core(rank: int, size: int) -> Rounds:
        return _reduce_scatter_allgather(rank, size, _digits(size, radix))

    return fold(core, lambda size: everything, lambda rank, size: everything, radix=radix)(
        rank, size
    )


@algorithm(
    "allreduce",
    minimum={"factors": 2},
    requires=factored,
    rounds="2*len(factors)",
    messages="2*(sum(factors) - len(factors))",
    sent="2*n*(p-1)/p",
    reduced="n*(p-1)/p",
)
def bcube(rank: int, size: int, factors: tuple[int, ...] = ()) -> Rounds:
    """Reduce-scatter, then allgather, with as many ranks at once as each factor of p says.

    The default is the prime factors of p, the smallest first. As in Gloo, with equal factors, the
    ranks of a round are the neighbours on one level of a BCube.

    References
    ----------
    Guo, Lu, Li, Wu, Zhang, Shi, Tian, Zhang, Lu, SIGCOMM 2009, doi:10.1145/1592568.1592577.
    """
    return _reduce_scatter_allgather(rank, size, factors or prime_factors(size))


def _halving(rank: int, size: int, radix: int) -> Rounds:
    for group in reversed(list(_groups(rank, _digits(size, radix)))):
        reach = group.step * radix
        first = rank - rank % reach
        pieces = parts(range(first, first + reach), radix)
        others = rotated(group, rank)
        own = pieces[group.index(rank)]
        yield Round(
            *(Send(peer, pieces[group.index(peer)]) for peer in others),
            *(Combine(peer, own) for peer in others),
        )


MOST_FOLDED = "n*(min(k-1, e)*p + P-1 + (k-1)*(k**E - 1 + (l-E)*e))/p"
"""Bytes that the first rank reduces in a folded halving: its windows have the most blocks."""


@algorithm(
    "reduce-scatter",
    aliases=("knomial",),
    minimum={"radix": 2},
    commutative=True,
    rounds="l + 2*(p>P)",
    messages="(k-1)*l + min(k-1, e)",
    sent="n*(p-1)/p + n/p*(p>P)",
    reduced=MOST_FOLDED,
)
def recursive_halving(rank: int, size: int, radix: int = 2) -> Rounds:
    """Exchange parts of the remaining blocks with partners that are nearer every round.

    References
    ----------
    Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, doi:10.1177/1094342005051521.
    """
    radix = radix_within(size, radix)
    return fold(
        partial(_halving, radix=radix),
        range,
        back=lambda rank, size: rank,
        windows=lambda groups, size: Folding(size, radix).window(groups),
        radix=radix,
    )(rank, size)


@algorithm(
    "allgather",
    name="recursive-multiplying",
    aliases=("knomial",),
    minimum={"radix": 2},
    rounds="l + 2*(p>P)",
    messages="(k-1)*l + min(k-1, e)",
    sent=MOST_FOLDED,
)
def allgather_multiplying(rank: int, size: int, radix: int = 4) -> Rounds:
    """Exchange the gathered blocks in groups of `radix` ranks that are farther every round.

    References
    ----------
    Wilkins, Guo, Thakur, Dinda, Hardavellas, IEEE CLUSTER 2023,
    doi:10.1109/CLUSTER52292.2023.00013.
    """
    return reverse(recursive_halving(rank, size, radix), Recv)
