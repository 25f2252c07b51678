"""Judging results: against the exact norm of the sum, and against what theory predicts of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.layernorm.communication import SUM
from hpccoll.layernorm.expectation import expectation
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.metrics import bit_equal, cosine, norm_ulps, relative_l2
from hpccoll.layernorm.norms import Norm, add_to, normalize
from hpccoll.layernorm.prediction import Prediction, predict
from hpccoll.layernorm.reference import Reference, reference
from hpccoll.layernorm.theory import tells, theory
from hpccoll.layernorm.tolerance import ILL_CONDITIONED, Rounding, lengths

AGREES, CONTRADICTS, NO_VERDICT = "agrees", "contradicts", "no verdict"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of one order with one input; lengths are relative to the expected rows'.

    Attributes
    ----------
    verdict
        Whether the result is what theory says of the order: `AGREES`, `CONTRADICTS`, or
        `NO_VERDICT` where every row is ill-conditioned.
    reason
        Why there is no verdict, why the input can't tell the order from a correct one, or what
        contradicts; empty otherwise.
    correct
        What theory says.
    told
        The measured deviation shows that the order is wrong.
    deviation, predicted
        The largest of any row: relative L2 of the measured and the predicted deviation.
    deviation_median, predicted_median
        Of all rows.
    over_bound, over_bound_median
        Error of the measured against the predicted deviation, over the bound that rounding
        explains. A correct order's predicted deviation is 0, and its bound the tolerance.
    deviation_over_bound
        Deviation over the same bound: above 1, the row isn't the exact one but for rounding.
    bound
        The largest, of the rows that can be judged.
    cosine
        Median over the rows, between the result and the exact one.
    expected_cosine, expected_deviation
        What closed forms say of long rows; None for inputs that have none.
    ill_conditioned
        Rows of which no verdict is possible.
    same_bits
        All ranks that have a result have the same bits.
    bit_equal
        Share of elements whose bits are those of the sum in the order of the ranks.
    """

    order: str
    label: str
    input: str
    verdict: str
    reason: str
    correct: bool
    told: bool
    deviation: float
    deviation_median: float
    predicted: float
    predicted_median: float
    over_bound: float
    over_bound_median: float
    deviation_over_bound: float
    bound: float
    ill_conditioned: int
    rows: int
    cosine: float | None
    expected_cosine: float | None
    expected_deviation: float | None
    norm_ulps: float
    same_bits: bool
    digests: tuple[str, ...]
    bit_equal: float


class Judge:
    """Judges the results of all orders for one input; only rank 0 has one."""

    def __init__(self, inputs: Inputs, norm: Norm, wide: bool) -> None:
        self.inputs, self.norm, self.wide = inputs, norm, wide
        self.gamma = inputs.gamma
        self.beta = inputs.beta if norm.centred else None
        self.expected: Reference = reference(inputs.terms, self.gamma, self.beta, norm)
        self.in_order = self._in_order()
        self._right: dict[Rounding, Prediction] = {}

    def _in_order(self) -> Array:
        """Return the norm of the sum in the order of the ranks, rounded as the orders round."""
        total = self.inputs.partial(0)
        of = np.dtype(np.float32) if self.wide else total.dtype
        total = total.astype(of)
        with np.errstate(all="ignore"):
            for rank in range(1, self.inputs.size):
                SUM.ufunc(total, self.inputs.partial(rank).astype(of), out=total)
        rows = add_to(total.astype(self.inputs.dtype), self.inputs.additions)
        return normalize(rows, self.gamma, self.beta, self.norm, out=rows)[0]

    def judge(
        self,
        order: str,
        label: str,
        rounding: Rounding,
        results: Sequence[Array],
        digests: Sequence[str],
    ) -> Judgement:
        """Judge what an order gave.

        Parameters
        ----------
        results
            Rank 0's rows, and those of ranks whose bits differ from them.
        digests
            Of all ranks that have a result.
        """
        found = self._prediction(order, rounding)
        deviation, error = self._errors(results, found)
        with np.errstate(all="ignore"):
            over = np.where(error == 0, 0.0, error / found.bound)
            off = np.where(deviation == 0, 0.0, deviation / found.bound)
        judged = found.bound < ILL_CONDITIONED
        correct = theory(order).correct
        seen, why = tells(order, self.inputs, self.norm)
        hidden = bool((found.relative <= found.bound)[judged].all())
        verdict, reason = self._verdict(judged, over)
        if not reason and not correct and (not seen or hidden):
            reason = why if not seen else "the deviation is no larger than what rounding explains"
        simple = expectation(order, self.inputs, self.norm)
        cosines = cosine(results[0], self.expected.y)
        return Judgement(
            order=order,
            label=label,
            input=self.inputs.name,
            verdict=verdict,
            reason=reason,
            correct=correct,
            told=not correct and seen and not hidden,
            deviation=_largest(deviation),
            deviation_median=_median(deviation),
            predicted=_largest(found.relative),
            predicted_median=_median(found.relative),
            over_bound=_largest(over[judged]),
            over_bound_median=_median(over[judged]),
            deviation_over_bound=_largest(off[judged]),
            bound=_largest(found.bound[judged]),
            ill_conditioned=int((~judged).sum()),
            rows=len(judged),
            expected_cosine=simple.cosine if simple else None,
            expected_deviation=simple.relative_l2 if simple else None,
            cosine=_median(cosines) if np.isfinite(cosines).any() else None,
            norm_ulps=_largest(norm_ulps(results[0], self.expected.y)),
            same_bits=len(set(digests)) == 1,
            digests=tuple(digests),
            bit_equal=bit_equal(results[0], self.in_order),
        )

    def _errors(self, results: Sequence[Array], found: Prediction) -> tuple[Array, Array]:
        """Return how far results are from the exact one and from the prediction, shape (T,).

        Both are relative to the exact rows' lengths; of several results the worst counts.
        """
        exact = self.expected.y
        predicted = exact + found.deviation
        with np.errstate(all="ignore"):
            scale = lengths(predicted) / lengths(exact)
            deviation = np.max([relative_l2(y, exact) for y in results], axis=0)
            relative = np.max([relative_l2(y, predicted) for y in results], axis=0)
            error = np.where(relative == 0, 0.0, relative * scale)
        return deviation, np.where(np.isnan(error), np.inf, error)

    def _prediction(self, order: str, rounding: Rounding) -> Prediction:
        """Return what theory predicts; correct orders that round alike share it."""
        if not theory(order).correct:
            return predict(order, self.inputs, self.norm, self.expected, rounding)
        if rounding not in self._right:
            self._right[rounding] = predict(order, self.inputs, self.norm, self.expected, rounding)
        return self._right[rounding]

    def _verdict(self, judged: Array, over: Array) -> tuple[str, str]:
        if not len(judged):
            return NO_VERDICT, "there are no rows"
        if not judged.any():
            return NO_VERDICT, "ill-conditioned: rounding alone may be as large as the rows"
        worst = float(over[judged].max())
        if worst <= 1:
            return AGREES, ""
        return CONTRADICTS, f"{worst:.3g} times as far off as rounding explains"


def _largest(values: Array) -> float:
    return float(values.max(initial=0.0))


def _median(values: Array) -> float:
    numbers = values[~np.isnan(values)]
    return float(np.median(numbers)) if numbers.size else 0.0
