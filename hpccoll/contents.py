"""What the messages of a plan carry: one rank's contribution, a partial result, or a result."""

from hpccoll.plan import Plan, PostRecv, PostSend, writes
from hpccoll.regions import Parts

RAW, COMPLETE, PARTIAL = "raw", "complete", "partial"
"""What a message carries: one rank's contribution, all ranks', or a partial result."""


def contents(plan: Plan, completes: bool) -> list[str]:
    """Return what each of the plan's messages carries, in the order of its sends.

    A contribution lies where the input was and nothing has been written yet; a result lies where
    the result must be and nothing is written any more.

    Parameters
    ----------
    completes
        Every result is one of all ranks, so that it is never reduced any more.
    """
    held, result, written = plan.layout.held, plan.layout.result, Parts()
    last = written_last(plan)
    found = []
    for number, step in enumerate(plan.instructions):
        if isinstance(step, PostSend):
            raw = step.region.inside(held) and not written.common(step.region)
            complete = completes and step.region.inside(result) and number in last
            found.append(RAW if raw else COMPLETE if complete else PARTIAL)
        for region in writes(step):
            written.add(region)
    return found


def written_last(plan: Plan) -> set[int]:
    """Return the numbers of messages whose region isn't written by any later instruction."""
    later, found = Parts(), set()
    for number in reversed(range(len(plan.instructions))):
        step = plan.instructions[number]
        if isinstance(step, PostSend | PostRecv) and not later.common(step.region):
            found.add(number)
        for region in writes(step):
            later.add(region)
    return found
