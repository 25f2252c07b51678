"""How the elements of a sweep stand: done, running, failed and why, or missing."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpccoll.sweep import log
from hpccoll.sweep.plan import Element
from hpccoll.sweep.results import Results, held

DONE, RUNNING, PENDING, FAILED, MISSING = "done", "running", "pending", "failed", "missing"
FAILURE = "failed: "


@dataclass(frozen=True, slots=True)
class State:
    """How an element stands, in a word, and more about it."""

    element: Element
    word: str
    reason: str = ""

    @property
    def done(self) -> bool:
        """Tell whether there is a whole result."""
        return self.word == DONE


def states(results: Results, queued: Mapping[int, tuple[str, str]] | None = None) -> list[State]:
    """Return how every element stands.

    Parameters
    ----------
    queued
        What a scheduler says of elements by their index: a word and more about it.

    Raises
    ------
    UsageError
        The folder has another plan's results.
    """
    found = [state(results, element) for element in results.plan.elements]
    known = queued or {}
    return [
        State(one.element, *known[one.element.index])
        if one.element.index in known and not one.done
        else one
        for one in found
    ]


def state(results: Results, element: Element) -> State:
    """Return how an element stands (see `states`)."""
    content = results.result(element)
    if content and content.whole:
        wrong = f", {content.wrong} WRONG" if content.wrong else ""
        return State(element, DONE, f"{len(content.records)} records{wrong}")
    if held(results.log(element)):
        return State(element, RUNNING)
    if results.path(element).exists():
        return State(element, FAILED, "its result is torn")
    return _unfinished(results, element)


def _unfinished(results: Results, element: Element) -> State:
    lines = log.lines(results.log(element))
    kept = {message for found in results.earlier(element) for message in found.messages}
    sizes = f"; kept of it: {len(kept)} size{'s' * (len(kept) > 1)}" if kept else ""
    if lines and lines[-1].what == log.BEGINS:
        last = lines[-1]
        words = f"run {last.run} of {last.time} didn't say how it ended: killed, or unseen here"
        return State(element, FAILED, words + sizes)
    if lines and lines[-1].words.startswith(FAILURE):
        return State(element, FAILED, lines[-1].words.removeprefix(FAILURE) + sizes)
    return State(element, MISSING)


def summary(found: Iterable[State]) -> str:
    """Return how many elements there are of each state: ``24 elements: 20 done, 4 missing``."""
    counts = Counter(state.word for state in found)
    words = ", ".join(f"{number} {word}" for word, number in counts.items())
    return f"{counts.total()} elements: {words}"
