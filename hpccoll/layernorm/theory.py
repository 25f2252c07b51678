"""What every order of Reduce (R), norm (L) and Broadcast (B) gives, and which inputs can show it.

What precedes the norm is added once: bias and residual to the sum where the norm follows the
reduction, and to the root's part where the norm comes first. So ``z_0 = x_0 + bias + residual`` and
``z_r = x_r`` on the other ranks; S is the sum of all z; n(z) are rows standardised,
``(z - mean) / s`` with ``s = sqrt(var + eps)``, or ``z / s`` with ``s = sqrt(mean(z**2) + eps)``
for RMSNorm. Rank 0 is the root.
"""

from dataclasses import dataclass

from hpccoll.errors import UsageError, unknown
from hpccoll.layernorm.inputs import Inputs
from hpccoll.layernorm.norms import Norm


@dataclass(frozen=True, slots=True)
class Theory:
    """Whether an order is correct, why in one sentence, and the deviation Y' - Y as a formula.

    Attributes
    ----------
    norms_first
        The norm is computed before the reduction, whose result isn't normalised any more.
    """

    correct: bool
    why: str
    deviation: str = "0"
    norms_first: bool = False


THEORY = {
    "allreduce-layernorm": Theory(
        True, "every rank has the whole sum, and equal rows have equal norms"
    ),
    "reduce-layernorm-bcast": Theory(True, "the root computes the norm of the sum by definition"),
    "reduce-layernorm-bcast-large": Theory(
        True, "the root computes the norm of the sum, whichever algorithms carry it"
    ),
    "fused": Theory(
        True, "the norm of a row needs no other row, so segments of rows can go one by one"
    ),
    "sequence-parallel": Theory(
        True, "the norm of a row needs no other row, so every rank may have some rows of the sum"
    ),
    "hidden-parallel": Theory(
        True, "the moments of all shards, merged, are those of the whole rows"
    ),
    "one-shot": Theory(True, "every rank adds all parts itself, and computes the norm of the sum"),
    "gather-layernorm-bcast": Theory(
        True, "the root adds all parts itself, and computes the norm of the sum"
    ),
    "layernorm-reduce-bcast": Theory(
        False,
        "every part is divided by its own deviation, not by that of the sum",
        "gamma * (sum_r n(z_r) - n(S)) + (p-1) * beta",
        norms_first=True,
    ),
    "layernorm-mean": Theory(
        False,
        "every part is divided by its own deviation, which the mean doesn't make up for",
        "gamma * (sum_r n(z_r) / p - n(S))",
        norms_first=True,
    ),
    "bcast-layernorm-reduce": Theory(
        False,
        "the broadcast overwrites all other parts, and p equal norms are added",
        "gamma * (p * n(z_0) - n(S)) + (p-1) * beta",
        norms_first=True,
    ),
    "bcast-reduce-layernorm": Theory(
        False,
        "the broadcast overwrites all other parts, and only the root has a result",
        "gamma * (n(p * x_0 + bias + residual) - n(S))",
    ),
    "layernorm-bcast-reduce": Theory(
        False,
        "the broadcast overwrites all other norms, and p equal ones are added",
        "gamma * (p * n(z_0) - n(S)) + (p-1) * beta",
        norms_first=True,
    ),
    "hidden-shards-alone": Theory(
        False,
        "every shard has its own mean and deviation: it is GroupNorm with p groups",
        "gamma * (n(S_g) - n(S)) in every shard g",
    ),
    "bias-on-every-rank": Theory(
        False, "the sum has the bias p times", "gamma * (n(S + (p-1) * bias) - n(S))"
    ),
    "residual-on-every-rank": Theory(
        False, "the sum has the residual p times", "gamma * (n(S + (p-1) * residual) - n(S))"
    ),
}
"""Every order by its name."""

SUMS_OF_BETAS = ("layernorm-reduce-bcast", "bcast-layernorm-reduce", "layernorm-bcast-reduce")
"""The orders whose result has beta p times."""


def theory(order: str) -> Theory:
    """Return what is known of the order, or raise `UsageError`."""
    if order not in THEORY:
        raise UsageError(unknown("ordering", order, THEORY))
    return THEORY[order]


def tells(order: str, inputs: Inputs, norm: Norm) -> tuple[bool, str]:
    """Tell whether the deviation of the order is other than zero for the inputs, and why (not).

    A deviation may still be less than rounding errors, which a prediction and its bound say.
    """
    if theory(order).correct:
        return False, "the order is correct: there is no deviation"
    for hides, why in _HIDDEN:
        if hides(order, inputs, norm):
            return False, why
    return True, theory(order).why


def shows_order_of_sums(inputs: Inputs) -> tuple[bool, str]:
    """Tell whether sums in another order, of two algorithms, can differ in a bit, and why not."""
    if inputs.size <= 2:
        return False, "a + b is b + a: with up to 2 ranks there is one sum"
    if inputs.name == "integers":
        return False, "sums of small integers are exact in any order"
    return True, "floating-point addition isn't associative"


def _no_rows(order: str, inputs: Inputs, norm: Norm) -> bool:
    return inputs.tokens == 0


def _alone(order: str, inputs: Inputs, norm: Norm) -> bool:
    return inputs.size == 1


def _nothing_added(order: str, inputs: Inputs, norm: Norm) -> bool:
    return (order == "bias-on-every-rank" and not inputs.bias) or (
        order == "residual-on-every-rank" and not inputs.residual
    )


def _flat(order: str, inputs: Inputs, norm: Norm) -> bool:
    flat = inputs.hidden == 1 or inputs.name == "constant"
    return flat and norm.centred and order not in SUMS_OF_BETAS


def _flat_shards(order: str, inputs: Inputs, norm: Norm) -> bool:
    flat = inputs.hidden == 1 or inputs.name == "constant"
    return flat and order == "hidden-shards-alone"


def _equal_sums(order: str, inputs: Inputs, norm: Norm) -> bool:
    return inputs.name == "replicated" and order == "bcast-reduce-layernorm"


def _equal_norms(order: str, inputs: Inputs, norm: Norm) -> bool:
    added = inputs.bias or inputs.residual
    return (inputs.name, order) == ("replicated", "layernorm-mean") and not added and norm.eps == 0


_HIDDEN = (
    (_no_rows, "there are no rows"),
    (_alone, "with 1 rank all orders are the same"),
    (_nothing_added, "there is nothing to be added once too often: use --bias or --residual"),
    (_flat, "rows of one value are their own mean: the norm is beta in any order"),
    (_flat_shards, "the shards of rows of one value have the statistics of the whole row"),
    (_equal_sums, "all ranks have the same rows, and p times the root's is the sum"),
    (_equal_norms, "all ranks have the same rows, and the mean of equal norms is the norm"),
)
"""Which orders and inputs go without a deviation, and why."""
