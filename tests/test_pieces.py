"""In which pieces messages are measured: only those that the request has."""

from types import SimpleNamespace

import pytest
from requested import build

from hpccoll.pieces import LENGTHS, SIZES, _sizes, with_pieces


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"name": "barrier"}, []),
        ({"size_list": "8,256"}, []),
        ({"size_list": "300"}, [512]),
        ({"size_list": "8,4KiB"}, [512, 1024, 2048, 4096]),
        ({"size_list": "4100"}, [512, 1024, 2048, 4096, 8192]),
        ({"size_list": "1GiB"}, list(SIZES)),
        ({"size_list": "4KiB", "op": "rsum"}, [512, 1024, 2048, 4096, 8192, 16384]),
        (
            {"size_list": "2KiB", "dtype": "float16", "accumulate": "float32"},
            [512, 1024, 2048, 4096],
        ),
    ],
    ids=str,
)
def test_no_longer_messages_are_tried_than_the_request_has(given, sizes):
    assert _sizes(build(**given)) == sizes


def test_what_is_too_short_for_any_piece_is_not_measured():
    shortest = build(size_list=str(min(LENGTHS)))
    world = SimpleNamespace(
        comm=SimpleNamespace(allgather=lambda value: [value]),
        node=SimpleNamespace(size=2),
        oversubscribed=None,
    )
    assert with_pieces(shortest, world, SimpleNamespace(native=object())) is shortest
