"""Sizes as people type and read them. K, M and G are binary here: KiB and K are both 1024 bytes."""

import re

from hpccoll.errors import UsageError

_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Return the bytes that a size spells: ``8``, ``64KiB``, ``16M``.

    >>> parse_size("64KiB")
    65536

    Raises
    ------
    UsageError
        It can't be read.
    """
    found = re.fullmatch(r"(\d+)\s*([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not found or (found[3] and found[3].lower() == "ib" and not found[2]):
        raise UsageError(
            f"size {text!r} can't be read; write a whole number of bytes with B, KiB, MiB, GiB, "
            "K, M or G (all binary), such as 8, 64KiB or 16M"
        )
    return int(found[1]) * _FACTORS[found[2].upper()]


def format_size(size: int) -> str:
    """Return the shortest exact spelling of a number of bytes.

    >>> [format_size(size) for size in (8, 1000, 65536)]
    ['8 B', '1000 B', '64 KiB']
    """
    for unit in ("GiB", "MiB", "KiB"):
        factor = _FACTORS[unit[0]]
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
