"""All results of a sweep in one file: the sweep, then of every element its run and its records."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

from hpccoll.errors import IncompleteError, unwritable
from hpccoll.results import Writer
from hpccoll.sweep.results import Record, Results, sync
from hpccoll.sweep.status import State, states

SCHEMA = 1
LISTED = 5
"""Elements without a result that are listed with their reasons."""


def collect(results: Results, output: Path, force: bool, partial: bool) -> list[State]:
    """Write all results into one file, and return the states of the elements.

    Parameters
    ----------
    force
        Overwrite the file.
    partial
        Leave out elements that aren't done; the file's first line lists them.

    Raises
    ------
    IncompleteError
        An element isn't done, and `partial` isn't set.
    UsageError
        The file exists or can't be written, or the folder has another plan's results.
    """
    found = states(results)
    lacking = [state for state in found if not state.done]
    if lacking and not partial:
        raise IncompleteError(_lacks(lacking, len(found)))
    if output.exists() and not force:
        raise unwritable(output, FileExistsError())
    unfinished = output.with_name(f"{output.name}.partial-{uuid4().hex[:8]}")
    with ExitStack() as stack:
        stack.callback(unfinished.unlink, missing_ok=True)
        writer = stack.enter_context(Writer(unfinished))
        for record in _records(results, found):
            writer.write(record)
        sync(unfinished)
        os.replace(unfinished, output)
    for state in found:
        if state.done:  # what was killed just after its result was there has left its own file
            results.clean(state.element)
    return found


def _lacks(lacking: list[State], total: int) -> str:
    lines = [
        f"  element {state.element.index}: {state.word}" + f", {state.reason}" * bool(state.reason)
        for state in lacking[:LISTED]
    ]
    lines += [f"  and {len(lacking) - LISTED} more"] if len(lacking) > LISTED else []
    return "\n".join(
        [
            f"{len(lacking)} of {total} elements aren't done; hpccoll sweep resume runs them, "
            "--partial leaves them out",
            *lines,
        ]
    )


def _records(results: Results, found: list[State]) -> Iterator[Record]:
    plan = results.plan
    yield {
        "type": "sweep",
        "schema": SCHEMA,
        "name": plan.name,
        "plan": plan.hash,
        "hpccoll": plan.version,
        "elements": [element.record() for element in plan.elements],
        "missing": [state.element.index for state in found if not state.done],
    }
    for state in found:
        content = results.result(state.element) if state.done else None
        if content:
            yield content.run
            yield from content.records
