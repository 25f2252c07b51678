"""The backward passes of a run: every placement judged with every input, then timed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpccoll.buffers import check_memory
from hpccoll.datatypes import Array
from hpccoll.layernorm import costs
from hpccoll.layernorm.backward import BACKWARD, COLUMNS, ROOT, Backward
from hpccoll.layernorm.backward_judge import BackwardJudge, BackwardJudgement
from hpccoll.layernorm.candidates import SMALLER, running_choices
from hpccoll.layernorm.communication import Communication
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.judge import Judge
from hpccoll.layernorm.metrics import digest
from hpccoll.layernorm.norms import accumulation
from hpccoll.layernorm.orders import ORDERS
from hpccoll.layernorm.program import Buffers, Program
from hpccoll.layernorm.rank import Rank
from hpccoll.layernorm.request import Request
from hpccoll.layernorm.tolerance import Rounding
from hpccoll.layernorm.traffic import Traffic
from hpccoll.layernorm.workspace import Workspace
from hpccoll.sampling import Loop
from hpccoll.spelling import choose
from hpccoll.world import World


@dataclass(frozen=True, slots=True)
class BackwardCandidate:
    """A placement, ready to be called: its forward pass, which leaves what the other needs.

    Attributes
    ----------
    parameters
        The gradients of gamma and beta, shape (2, H).
    traffic
        What every rank moves in the backward pass.
    """

    placement: Backward
    forward: Program
    program: Program
    parameters: Array
    rounding: Rounding
    traffic: tuple[Traffic, ...]

    @property
    def label(self) -> str:
        """Return the placement's name."""
        return self.placement.name


class BackwardPasses:
    """All placements of the orders asked for, bound to buffers of their own."""

    def __init__(self, request: Request, world: World, loop: Loop, buffers: Buffers) -> None:
        self.request, self.world, self.loop = request, world, loop
        self.buffers = buffers
        # Each has memory of its own, for what is saved must last; nothing has touched it yet.
        self._workspace = Workspace()
        self.gradients = replace(buffers, x=self._workspace.array(buffers.x.shape, buffers.x.dtype))
        self.made = [
            self._candidate(placement)
            for placement in BACKWARD.values()
            if placement.order in request.orders
        ]
        check_memory(world, self._workspace.used, f"backward, of {request.words},", SMALLER)

    def _candidate(self, placement: Backward) -> BackwardCandidate:
        request, world = self.request, self.world
        choices = running_choices(request, world)
        fixed = {of: choose(of, name)[0] for of, name in ORDERS[placement.order].fixed}
        communication = Communication(world, self.loop, choices, Workspace(), request.accumulate)
        forward, rank = (
            Rank(communication, request.norm, buffers, fixed)
            for buffers in (self.buffers, self.gradients)
        )
        parameters = np.zeros((2, request.hidden), accumulation(request.dtype))
        placement.does(forward, rank, parameters)
        traffic = world.comm.allgather(rank.program.traffic)
        reduction = next(of for of in ORDERS[placement.order].collectives if "reduce" in of)
        rounding = Rounding(
            request.dtype,
            costs.depth((choices | fixed)[reduction], world.size),
            request.accumulate == "float32",
            world.size if placement.parameters == COLUMNS else 1,
        )
        return BackwardCandidate(
            placement, forward.program, rank.program, parameters, rounding, tuple(traffic)
        )

    def fill(self, inputs: Inputs) -> None:
        """Write an input, and run the forward passes."""
        self.buffers.fill(inputs, self.world.rank)
        self.gradients.x[:] = inputs.upstream(self.world.rank)
        for candidate in self.made:
            self._call(candidate.forward, candidate, inputs)

    def _call(self, program: Program, candidate: BackwardCandidate, inputs: Inputs) -> None:
        self.loop.watchdog.label = f"backward pass of {candidate.label} of {inputs.name}"
        with np.errstate(all="ignore"):
            self.loop.run(program, 1)
        self.loop.watchdog.pause()

    def judge_all(self, inputs: Inputs, forward: Judge | None) -> list[BackwardJudgement]:
        """Call every placement once with an input and judge it; only rank 0 gets judgements."""
        self.fill(inputs)
        judge = BackwardJudge(forward) if forward else None
        found = []
        for candidate in self.made:
            self.buffers.y[:] = np.nan
            candidate.parameters[:] = 0
            self._call(candidate.program, candidate, inputs)
            dx, parameters, same = self._results(candidate)
            if judge:
                found.append(
                    judge.judge(candidate.placement, candidate.rounding, dx, parameters, same)
                )
        return found

    def _results(self, candidate: BackwardCandidate) -> tuple[Sequence[Array], Array, bool]:
        """Return the rows, the gradients of gamma and beta, and whether all ranks agree."""
        comm, own = self.world.comm, candidate.parameters
        kind, correct = candidate.placement.parameters, candidate.placement.correct
        rows = comm.allgather(digest(self.buffers.y))
        others = comm.gather(self.buffers.y if rows[comm.rank] != rows[0] else None)
        parts = comm.allgather(own) if kind == COLUMNS else [own]
        digests = comm.allgather(digest(own))
        if kind == COLUMNS:  # zeros but for the own columns
            own = np.sum(parts, axis=0)
        alone = kind in (ROOT, COLUMNS) or not correct
        same = len(set(rows)) == 1 and (alone or len(set(digests)) == 1)
        return [self.buffers.y, *(r for r in others or () if r is not None)], own, same
