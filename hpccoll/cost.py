"""Closed forms: what an algorithm promises to cost, as expressions that are printed and evaluated.

The letters are p (ranks), n (bytes of the full vector), k (the radix: 2 if the algorithm has none,
and never above p), l = ⌊log_k p⌋, P = k^l, e = p - P (ranks that a fold leaves out),
E = ⌈log_k(e/(k-1))⌉, L = ⌈log2 p⌉, Lk = ⌈log_k p⌉ and S (segments). A parameter also stands for
itself under its own name; an empty list is the prime factors of p. Results are exact
(`fractions.Fraction`).
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from hpccoll.shapes import ceil_log, power_below, prime_factors, radix_within

LETTERS = (
    "p ranks, n bytes of the full vector, k radix (2 where there is none; at most p), l = ⌊log_k p⌋, "
    "P = k^l, e = p-P, E = ⌈log_k(e/(k-1))⌉, L = ⌈log2 p⌉, Lk = ⌈log_k p⌉, S segments"
)
"""What the letters of closed forms mean, in one sentence."""


def evaluate(
    form: str, p: int, n: int = 0, parameters: Mapping[str, object] | None = None
) -> Fraction:
    """Return the value of a closed form for `p` ranks and a vector of `n` bytes.

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
        "log2": lambda size: ceil_log(int(size)),
        "ceil": ceil,
        "len": len,
        "max": max,
        "min": min,
        "sum": sum,
    }
    # Forms are written by an algorithm's author beside its code, so they are trusted like code.
    return Fraction(eval(form, {"__builtins__": {}}, letters))


def _operand(value: object, p: int) -> object:
    """Return what the value of a parameter is in a closed form."""
    if isinstance(value, int):
        return Fraction(value)
    return prime_factors(p) if value == () else value
