"""What is said of the ranks as a whole."""

import pytest

from hpccoll.placement import Placement
from hpccoll.world import World


def world(hosts, machines, cores):
    """Return a world of ranks with these hosts, machines and cores."""
    return World(
        comm=None,
        node=None,
        hosts=tuple(hosts),
        machines=tuple(machines),
        cores=tuple(cores),
        placement=Placement(hosts),
        library="MPICH 5.0.2",
        library_version="",
        standard="4.1",
        thread_level="funneled",
        thread_reason="",
    )


BOTH = (0, 1)


@pytest.mark.parametrize(
    ("hosts", "machines", "cores", "said"),
    [
        ("aa", "AA", [BOTH, BOTH], None),
        ("aab", "AAB", [BOTH] * 3, None),
        ("aaa", "AAA", [BOTH] * 3, "3 ranks share 2 cores on a"),
        ("aa", "AA", [(0,), (0,)], "2 ranks share 1 core on a"),
        ("aabbb", "AABBB", [BOTH] * 5, "3 ranks share 2 cores on b"),
        ("abc", "AAA", [BOTH] * 3, "3 ranks share 2 cores on a, b, c, one machine"),
        ("ab", "AA", [(0,), (1,)], None),
    ],
)
def test_ranks_share_the_cores_of_a_machine_however_many_hosts_it_is(hosts, machines, cores, said):
    assert world(hosts, machines, cores).oversubscribed == said
