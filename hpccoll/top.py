"""A table shortened to what matters most: the fastest, the library, and whatever is wrong."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpccoll.registry import LIBRARY

if TYPE_CHECKING:
    from hpccoll.measurement import Measurement


def shown(measured: Sequence["Measurement"], top: int | None) -> list["Measurement"]:
    """Return what is shown of one size: the `top` fastest right results, or all.

    The library is shown wherever it stands, and so is every wrong result and whatever a row that is
    shown is compared with.
    """
    right = sorted(
        (entry for entry in measured if entry.check != "failed"),
        key=lambda entry: entry.latency.p50,
    )
    wrong = [entry for entry in measured if entry.check == "failed"]
    labels = {entry.label for entry in (*right[:top], *wrong)}
    labels |= {entry.baseline for entry in measured if entry.label in labels}
    return [entry for entry in measured if entry.label in labels or entry.algorithm == LIBRARY]


def line(left_out: int) -> str:
    """Return what stands under the rows of a size, of which some were left out."""
    return f"{'':9}and {left_out} slower" if left_out else ""


def note(left_out: int, measured: int, path: str | None) -> str:
    """Return what stands under the table: how many rows it lacks, and where they are."""
    if not left_out:
        return ""
    where = f"{path} has all" if path else "with -o FILE, a file has all"
    return f"note   --top left out {left_out} of {measured} rows; {where}"
