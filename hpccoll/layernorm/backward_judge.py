"""Judging gradients against those that the exact sums give."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.backward import Backward
from hpccoll.layernorm.judge import AGREES, CONTRADICTS, NO_VERDICT, Judge
from hpccoll.layernorm.metrics import relative_l2
from hpccoll.layernorm.reference import ReferenceGradients, reference_gradients
from hpccoll.layernorm.tolerance import ILL_CONDITIONED, Rounding, gradient_tolerance
from hpccoll.partition import Partition


@dataclass(frozen=True, slots=True)
class Gradient:
    """How far one gradient is off; lengths are relative to the expected one's.

    Attributes
    ----------
    deviation, predicted
        Measured, and as theory says: 0 of a correct placement.
    over_bound
        Measured minus predicted, over what rounding explains; None where that is everything.
    """

    deviation: float
    predicted: float
    over_bound: float | None


@dataclass(frozen=True, slots=True)
class BackwardJudgement:
    """What was found of one placement with one input.

    Attributes
    ----------
    dx
        Of the worst row.
    dbeta
        None for RMSNorm, which has no beta.
    same_bits
        All ranks that have gradients of gamma and beta, and all that have those of the rows, have
        the same bits.
    """

    name: str
    input: str
    correct: bool
    dx: Gradient
    dgamma: Gradient
    dbeta: Gradient | None
    same_bits: bool

    @property
    def over_bound(self) -> float | None:
        """Return the largest error over its bound; None where no gradient can be judged."""
        found = (self.dx, self.dgamma, self.dbeta)
        known = [one.over_bound for one in found if one and one.over_bound is not None]
        return max(known, default=None)

    @property
    def verdict(self) -> str:
        """Return whether the gradients are what theory says."""
        if self.over_bound is None:
            return NO_VERDICT
        return AGREES if self.over_bound <= 1 else CONTRADICTS


class BackwardJudge:
    """Judges the gradients of all placements for one input; only rank 0 has one."""

    def __init__(self, forward: Judge) -> None:
        self.forward, self.inputs, self.norm = forward, forward.inputs, forward.norm
        self.expected: ReferenceGradients = reference_gradients(
            forward.expected,
            map(self.inputs.upstream, range(self.inputs.size)),
            self.inputs.gamma,
            self.norm,
        )

    def judge(
        self,
        placement: Backward,
        rounding: Rounding,
        dx: Sequence[Array],
        parameters: Array,
        same_bits: bool,
    ) -> BackwardJudgement:
        """Judge what a placement gave.

        Parameters
        ----------
        dx
            Rank 0's rows, and those of ranks whose bits differ from them.
        parameters
            Gradients of gamma and beta, shape (2, H), of rank 0, or put together.
        """
        rows_bound, *bounds = gradient_tolerance(
            self.expected,
            self.forward.expected,
            self.inputs.gamma,
            self.norm,
            rounding,
            len(self.inputs.additions),
        )
        rows = self._rows(dx, rows_bound)
        factor = self.inputs.size if placement.name == "allreduce-layernorm-twice" else 1
        dgamma, *dbeta = (
            self._parameter(placement, which, parameters[which], bound * factor)
            for which, bound in enumerate(bounds[: 1 + self.norm.centred])
        )
        return BackwardJudgement(
            placement.name,
            self.inputs.name,
            placement.correct,
            rows,
            dgamma,
            dbeta[0] if dbeta else None,
            same_bits,
        )

    def _rows(self, dx: Sequence[Array], bound: Array) -> Gradient:
        error = np.max([relative_l2(rows, self.expected.dx) for rows in dx], axis=0)
        judged = bound < ILL_CONDITIONED
        with np.errstate(all="ignore"):
            over = np.where(error == 0, 0.0, error / bound)
        worst = float(over[judged].max()) if judged.any() else None
        return Gradient(float(error.max(initial=0.0)), 0.0, worst)

    def _parameter(self, placement: Backward, which: int, found: Array, bound: float) -> Gradient:
        expected = self._columns(which)
        wrong = self._predicted(placement, which)
        with np.errstate(all="ignore"):
            length = np.sqrt(np.square(expected).sum())
            measured, predicted, error = (
                float(np.sqrt(np.square(part).sum()) / length) if length else 0.0
                for part in (found - expected, wrong - expected, found - wrong)
            )
        if not bound < ILL_CONDITIONED or not np.isfinite(expected).all():
            return Gradient(measured, predicted, None)
        return Gradient(
            measured, predicted, error / bound if bound else float(np.inf) if error else 0.0
        )

    def _columns(self, which: int, rows: slice = slice(None)) -> Array:
        """Return the gradient of gamma (0) or beta (1) that some of the rows give."""
        upstream = self.expected.upstream.total[rows]
        if which == 0:
            upstream = upstream * self.forward.expected.standardized[rows]
        columns: Array = upstream.sum(axis=0)
        return columns

    def _predicted(self, placement: Backward, which: int) -> Array:
        """Return what a placement gives in place of the gradient, on rank 0."""
        if placement.name == "sequence-parallel-unsummed":
            cut = Partition(self.inputs.tokens, self.inputs.size)
            return self._columns(which, slice(0, cut.size(0)))
        again = placement.name == "allreduce-layernorm-twice"
        return self._columns(which) * (self.inputs.size if again else 1)
