"""Exceptions of hpccoll: a message says what was asked, what was found, and the remedy."""

from collections.abc import Iterable


class HpccollError(Exception):
    """Base of everything that hpccoll raises on purpose."""


class UsageError(HpccollError):
    """The request can't be carried out as it was written (exit code 2)."""


class UnsupportedError(UsageError):
    """An algorithm or engine can't do what was asked, and says why."""


class CheckError(HpccollError):
    """A measured result is wrong (exit code 1)."""


class EndedError(HpccollError):
    """A run was told to end before it had measured everything (exit code 1)."""


class IncompleteError(HpccollError):
    """Elements of a sweep have no result yet, or failed (exit code 1)."""


class VerificationError(HpccollError):
    """A schedule is wrong; the message is the counterexample (exit code 1)."""


class EngineError(HpccollError):
    """An MPI function failed; the message says which rank, round and peer, and MPI's own words."""


class PlanError(HpccollError):
    """A plan touches memory that is in flight: a fault of the planner, never of the user."""


class HangError(HpccollError):
    """The plans of all ranks can't go on."""


class WorkerError(HpccollError):
    """A process that shares the work was ended from outside."""


def unwritable(path: object, error: OSError, option: str = "--output") -> UsageError:
    """Return what to say of a file, named by an option, that can't be made or written."""
    if isinstance(error, FileExistsError):
        return UsageError(f"{path} exists; choose another {option}, or overwrite it with --force")
    return UsageError(f"{path} can't be written: {error.strerror}; choose another {option}")


def unwritable_folder(path: object, error: OSError, option: str) -> UsageError:
    """Return what to say of a folder, named by an option, that can't be made or written to."""
    return UsageError(f"{path} can't be written: {error.strerror}; choose another {option}")


def unknown(kind: str, name: str, valid: Iterable[str]) -> str:
    """Return a message about a wrong name that suggests the nearest and lists the valid ones."""
    from difflib import get_close_matches

    choices = list(valid)
    near = get_close_matches(name, choices, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown {kind} {name!r}{hint} (choose from {', '.join(choices)})"
