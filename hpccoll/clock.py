"""The clock of all measurements: monotonic, in seconds."""

from time import get_clock_info, perf_counter

now = perf_counter
"""Return the time in seconds since some fixed moment."""


def describe() -> dict[str, object]:
    """Return what the records say of the clock: its source and its resolution in seconds."""
    info = get_clock_info("perf_counter")
    return {"source": info.implementation, "resolution_s": info.resolution}
