"""Faults for one rank or message: faults.py FAULT WORDS... runs ``hpccoll WORDS`` with one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from hpccoll import bind, candidates, cli, launch, parsing, session
from hpccoll.engines.python import PythonCall
from hpccoll.layout import OUTPUT, SCRATCH, Region
from hpccoll.plan import Plan, PostRecv, Reduce, writes

Mutation = Callable[[Plan], Plan]


def swapped(plan: Plan) -> Plan:
    """Exchange, for the last rank, the first two places in its output that it writes."""
    written = [region for step in plan.instructions for region in writes(step)]
    one, other = list(dict.fromkeys(region for region in written if region.space == OUTPUT))[:2]
    exchanged = {one: other, other: one}

    def exchange(step: Any) -> Any:
        names = (name for name in step.__slots__ if isinstance(getattr(step, name), Region))
        return replace(
            step, **{n: exchanged.get(getattr(step, n), getattr(step, n)) for n in names}
        )

    return replace(plan, instructions=tuple(map(exchange, plan.instructions)))


def unreduced(plan: Plan) -> Plan:
    """Leave out the last reduction of the last rank."""
    number = _last(plan, Reduce)
    rest = (step for n, step in enumerate(plan.instructions) if n != number)
    return replace(plan, instructions=tuple(rest))


def lost(plan: Plan) -> Plan:
    """Receive the last message of the last rank into scratch instead of the output."""
    number = _last(plan, PostRecv)
    receive = plan.instructions[number]
    into = Region(SCRATCH, plan.scratch, receive.region.count)
    return replace(
        plan,
        instructions=_replaced(plan, number, replace(receive, region=into)),
        scratch=plan.scratch + into.count,
    )


def unanswered(plan: Plan) -> Plan:
    """Let the last rank's first receive wait for a message that nobody sends."""
    number = _first(plan, PostRecv)
    receive = replace(plan.instructions[number], channel=7)
    return replace(plan, instructions=_replaced(plan, number, receive))


def _first(plan: Plan, kind: type) -> int:
    return next(n for n, step in enumerate(plan.instructions) if isinstance(step, kind))


def _last(plan: Plan, kind: type) -> int:
    return max(n for n, step in enumerate(plan.instructions) if isinstance(step, kind))


def _replaced(plan: Plan, number: int, step: Any) -> tuple[Any, ...]:
    return (*plan.instructions[:number], step, *plan.instructions[number + 1 :])


class Stale(PythonCall):
    """A call that is right the first time and gives the same result again from then on."""

    def __init__(self, plan: Plan, spaces: Any, *rest: Any) -> None:
        super().__init__(plan, spaces, *rest)
        self._output, self._kept = spaces[OUTPUT], None

    def __call__(self) -> None:
        if self._kept is None:
            super().__call__()
            self._kept = self._output.copy()
        self._output[:] = self._kept


def _bound_with(mutation: Mutation) -> Any:
    def bound(choice: Any, rank: int, size: int, *rest: Any) -> Plan:
        plan = bind.bind(choice, rank, size, *rest)
        return mutation(plan) if rank == size - 1 else plan

    return mock.patch.object(candidates, "bind", bound)


def _raising(owner: Any, name: str) -> Any:
    """Raise on rank 1 where the others call the function."""
    original = getattr(owner, name)

    def function(*arguments: Any, **options: Any) -> Any:
        if launch.detect().rank == 1:
            raise RuntimeError("a fault of this test")
        return original(*arguments, **options)

    return mock.patch.object(owner, name, function)


def _talking() -> Any:
    original = session.run

    def run(*arguments: Any) -> None:
        print(f"this is rank {launch.detect().rank}", flush=True)
        original(*arguments)

    return mock.patch.object(session, "run", run)


PATCHES: dict[str, Callable[[], Any]] = {
    "swapped": lambda: _bound_with(swapped),
    "unreduced": lambda: _bound_with(unreduced),
    "lost": lambda: _bound_with(lost),
    "unanswered": lambda: _bound_with(unanswered),
    "stale": lambda: mock.patch.object(candidates, "PythonCall", Stale),
    "raises before MPI starts": lambda: _raising(parsing, "build"),
    "raises in a call": lambda: _raising(PythonCall, "__call__"),
    "every rank talks": _talking,
}


@contextmanager
def injected(fault: str) -> Iterator[None]:
    """Inject the fault of that name, none if it is empty."""
    if not fault:
        yield
        return
    with PATCHES[fault]():
        yield


if __name__ == "__main__":
    fault = sys.argv.pop(1)
    with injected(fault):
        cli.main()
