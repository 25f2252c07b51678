"""Sizes as people write them."""

import pytest

from hpccoll.errors import UsageError
from hpccoll.units import format_size, parse_size

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("0", 0), ("8", 8), ("8B", 8), ("8 B", 8), ("8b", 8), ("1000", 1000)),
        *(("1K", KIB), ("1k", KIB), ("1KB", KIB), ("1kb", KIB), ("1KiB", KIB), ("1kib", KIB)),
        *(("64KiB", 64 * KIB), ("64 KiB", 64 * KIB), (" 64KiB ", 64 * KIB)),
        *(("16M", 16 * MIB), ("16m", 16 * MIB), ("16MB", 16 * MIB), ("16mib", 16 * MIB)),
        *(("2G", 2 * GIB), ("2GB", 2 * GIB), ("2GiB", 2 * GIB)),
    ],
)
def test_all_units_are_binary_in_either_case(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", " ", "8x", "-1", "+1", "1.5K", "1e3", "KiB", "B", "8 i B", "8iB", "8KK", "8TiB", "8,16"],
)
def test_what_cannot_be_read_is_refused_with_a_remedy(text):
    with pytest.raises(UsageError, match=r"can't be read; write .* such as 8, 64KiB or 16M") as at:
        parse_size(text)
    assert repr(text) in str(at.value)


def test_what_is_written_reads_as_the_same_size():
    for exponent in range(41):
        for size in ((1 << exponent) + near for near in (-1, 0, 1)):
            assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0 B"), (1, "1 B"), (1000, "1000 B"), (1023, "1023 B"), (1025, "1025 B")),
        *((KIB, "1 KiB"), (1536, "1536 B"), (1536 * KIB, "1536 KiB"), (MIB, "1 MiB")),
        *((16 * MIB, "16 MiB"), (GIB, "1 GiB"), (1024 * GIB, "1024 GiB")),
    ],
)
def test_the_shortest_exact_spelling_is_written(size, text):
    assert format_size(size) == text
