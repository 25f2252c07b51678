"""Compare, prove and measure MPI collective algorithms."""

__version__ = "0.1.0"
