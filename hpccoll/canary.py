"""The canary: what stays the same from block to block unless the machine itself changes."""

from collections.abc import Iterable

SHIFT = 1.3
"""A canary that changes by more than this factor is said."""


def shifts(canaries: Iterable[tuple[float, float]]) -> list[str]:
    """Return a sentence for each canary that changed much within a run: the machine did, too.

    Parameters
    ----------
    canaries
        Per size the medians, in seconds, of a fixed spin and of one barrier.
    """
    found = []
    for what, values in zip(
        ("a fixed spin", "a barrier"), zip(*canaries, strict=True), strict=False
    ):
        low, high = min(values), max(values)
        if low > 0 and high > SHIFT * low:
            found.append(
                f"note   the machine changed during the run: {what} took {low * 1e6:.2f} to "
                f"{high * 1e6:.2f} us; compare within a size, not between sizes"
            )
    return found
