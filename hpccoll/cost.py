"""Closed forms: what an algorithm promises to cost, as expressions that are printed and evaluated.

The letters are p (ranks), n (bytes of the full vector), k (the radix: 2 if the algorithm has none,
and never above p), l = ⌊log_k p⌋, P = k^l, e = p - P (ranks that a fold leaves out),
E = ⌈log_k(e/(k-1))⌉, L = ⌈log2 p⌉, Lk = ⌈log_k p⌉, D (digits other than 0 of the numbers below p in
base k) and S (segments); for algorithms on nodes N (nodes), q (ranks of each), LN = ⌈log2 N⌉ and
Lq = ⌈log2 q⌉. A parameter also stands for itself under its own name; an empty list is the prime
factors of p. Results are exact (`fractions.Fraction`).

A closed form of the time, in seconds, also knows the `Machine`: alpha, o and beta. It says which
value of a parameter suits a message; nothing that is measured depends on it being right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil

from hpccoll.shapes import ceil_log, nonzero_digits, power_below, prime_factors, radix_within

LETTERS = (
    "p ranks, n bytes of the full vector, k radix (2 where there is none; at most p), "
    "l = ⌊log_k p⌋, P = k^l, e = p-P, E = ⌈log_k(e/(k-1))⌉, L = ⌈log2 p⌉, Lk = ⌈log_k p⌉, "
    "D digits other than 0 of the numbers below p in base k, S segments, N nodes, "
    "q ranks of each, LN = ⌈log2 N⌉, Lq = ⌈log2 q⌉"
)
"""What the letters of closed forms mean, in one sentence."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a closed form of the time knows of the machine, in seconds.

    Attributes
    ----------
    alpha
        From the start of a step to its end, for a message without bytes.
    overhead
        A rank is busy so long with each further message of the same step.
    beta
        Per byte that a rank sends.
    """

    alpha: Fraction
    overhead: Fraction
    beta: Fraction

    def __str__(self) -> str:
        step, further = (f"{float(time * 10**6):.3g}" for time in (self.alpha, self.overhead))
        return (
            f"alpha = {step} us a step, o = {further} us a further message of a step, "
            f"beta = {float(self.beta * 10**9):.3g} ns a byte"
        )


ASSUMED = Machine(Fraction(2, 10**6), Fraction(1, 2 * 10**6), Fraction(1, 10**10))
"""A cluster's network, where none is measured."""

CANDIDATES: Mapping[str, tuple[int, ...]] = {
    "segments": tuple(1 << i for i in range(13)),
    "radix": tuple(range(2, 9)),
}
"""The values among which the model chooses a parameter: near the optimum the time hardly changes.
"""


def evaluate(
    form: str,
    p: int,
    n: int = 0,
    parameters: Mapping[str, object] | None = None,
    nodes: int = 1,
    machine: Machine = ASSUMED,
) -> Fraction:
    """Return the value of a closed form for `p` ranks and a vector of `n` bytes.

    All `nodes` have equally many ranks.

    >>> evaluate("2*n*(p-1)/p", p=3, n=6)
    Fraction(8, 1)
    """
    given = parameters or {}
    radix = radix_within(p, int(str(given.get("radix", 2))))
    core = power_below(p, radix)
    letters = {name: _operand(value, p) for name, value in given.items()} | {
        "p": Fraction(p),
        "n": Fraction(n),
        "P": Fraction(core),
        "l": ceil_log(core, radix),
        "L": ceil_log(p),
        "e": p - core,
        "E": ceil_log(-(-(p - core) // (radix - 1)), radix),
        "S": int(str(given.get("segments", 1))),
        "k": Fraction(radix),
        "Lk": ceil_log(p, radix),
        "N": Fraction(nodes),
        "q": Fraction(p, nodes),
        "LN": ceil_log(nodes),
        "Lq": ceil_log(p // nodes),
        "D": nonzero_digits(p, radix),
        "log2": lambda size: ceil_log(int(size)),
        "log": lambda size, base: ceil_log(int(size), int(base)),
        "ceil": ceil,
        "len": len,
        "max": max,
        "min": min,
        "sum": sum,
        "alpha": machine.alpha,
        "o": machine.overhead,
        "beta": machine.beta,
    }
    # Forms are written by an algorithm's author beside its code, so they are trusted like code.
    return Fraction(eval(form, {"__builtins__": {}}, letters))


def _operand(value: object, p: int) -> object:
    """Return what the value of a parameter is in a closed form."""
    if isinstance(value, int):
        return Fraction(value)
    return prime_factors(p) if value == () else value


def fastest(
    time: str,
    p: int,
    n: int,
    free: Iterable[str],
    given: Mapping[str, object],
    machine: Machine = ASSUMED,
) -> dict[str, int]:
    """Return the values of the parameters `free` for which a closed form of the time is least.

    Every rank finds the same, since nothing is rounded; at a tie the smaller values win.

    >>> fastest("(p-2+S)*(alpha + n*beta/S)", 18, 1 << 20, ["segments"], {})
    {'segments': 32}
    """
    names = list(free)
    values = product(*(CANDIDATES[name] for name in names))
    return min(
        (dict(zip(names, chosen, strict=True)) for chosen in values),
        key=lambda chosen: evaluate(time, p, n, {**given, **chosen}, machine=machine),
    )
