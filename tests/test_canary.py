"""A machine that changes during a run is said to."""

import pytest

from hpccoll.canary import SHIFT, shifts


@pytest.mark.parametrize(
    ("canaries", "words"),
    [
        ([], []),
        ([(1e-6, 2e-6)], []),
        ([(1e-6, 2e-6), (SHIFT * 0.99e-6, 2e-6)], []),
        ([(1e-6, 2e-6), (2e-6, 2e-6)], ["a fixed spin took 1.00 to 2.00 us"]),
        ([(1e-6, 3e-6), (1e-6, 2e-6)], ["a barrier took 2.00 to 3.00 us"]),
        ([(1e-6, 0.0), (1e-6, 0.0)], []),
    ],
    ids=["nothing", "one size", "little", "spin", "barrier", "no barrier"],
)
def test_a_change_by_more_than_the_shift_is_said(canaries, words):
    found = shifts(canaries)
    assert len(found) == len(words)
    for sentence, part in zip(found, words, strict=True):
        assert part in sentence
