"""What the measuring loop needs of an engine: a call that is ready to be made."""

from typing import Protocol


class Call(Protocol):
    """A collective bound to its buffers; calling it performs it once."""

    engine: str
    """Name of the engine, as it stands in the record."""

    function: str
    """The library's functions that it calls."""

    def __call__(self) -> None:
        """Perform the collective once."""

    def position(self) -> str:
        """Say, from another thread, what the call is waiting for."""
