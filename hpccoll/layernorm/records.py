"""The records of a comparison: the run, then one line per order and input."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

from hpccoll.layernorm.backward_judge import Gradient
from hpccoll.layernorm.theory import theory
from hpccoll.results import Record, place_record, relevant_environment

if TYPE_CHECKING:
    from hpccoll.launch import Launch
    from hpccoll.layernorm.comparison import Comparison
    from hpccoll.layernorm.judge import Judgement
    from hpccoll.layernorm.request import Request
    from hpccoll.layernorm.resources import Resources
    from hpccoll.layernorm.timing import Timing
    from hpccoll.world import World


def run_record(request: "Request", world: "World", launch: "Launch", engine: str) -> Record:
    """Return the first line of a file: what ran, where, and with what."""
    return {
        **place_record(request.seed, world, launch),
        "engine": engine,
        "sample": "time of one call on the slowest rank",
        "tokens": request.tokens,
        "hidden": request.hidden,
        "bytes": request.bytes,
        "dtype": request.dtype.name,
        "accumulate": request.accumulate,
        "norm": asdict(request.norm),
        "residual": request.residual,
        "bias": request.bias,
        "algorithms": {of: choice.label for of, choice in request.choices.items()},
        "environment": relevant_environment(os.environ),
    }


def records(compared: "Comparison") -> Iterator[Record]:
    """Yield a line per order and input, per backward pass and input, and per order left out."""
    yield from _orders(compared)
    yield from _backward(compared)
    for label, reason in compared.skipped.items():
        yield {"type": "skipped", "label": label, "reason": reason}


def _orders(compared: "Comparison") -> Iterator[Record]:
    used = dict(zip((one.label for one in compared.made), compared.used, strict=True))
    timed = dict(zip((one.label for one in compared.made), compared.timings, strict=True))
    timed_input = compared.request.inputs[0]
    algorithms = {
        one.label: {bound.collective: bound.label for bound in one.program.bound}
        for one in compared.made
    }
    for one in compared.judged:
        yield {
            "type": "order",
            **_judged(one),
            "why": theory(one.order).why,
            "formula_of_deviation": theory(one.order).deviation,
            "algorithms": algorithms[one.label],
            **_used(used[one.label]),
            **_times(timed[one.label], one.input == timed_input),
        }


def _backward(compared: "Comparison") -> Iterator[Record]:
    made = {one.label: one for one in compared.backward}
    timed = dict(zip(made, compared.backward_timings, strict=True))
    for one in compared.backward_judged:
        judged = {field.name: getattr(one, field.name) for field in fields(one)}
        yield {
            "type": "backward",
            "verdict": one.verdict,
            **{name: _gradient(value) for name, value in judged.items()},
            "why": made[one.name].placement.why,
            "traffic": [asdict(each) for each in made[one.name].traffic],
            **_times(timed[one.name], one.input == compared.request.inputs[0]),
        }


def _gradient(value: Any) -> Any:
    return _plain_values(asdict(value)) if isinstance(value, Gradient) else _plain(value)


def _judged(one: "Judgement") -> Record:
    return {field.name: _plain(getattr(one, field.name)) for field in fields(one)}


def _used(used: "Resources") -> Record:
    return {
        "traffic": None if used.traffic is None else [asdict(one) for one in used.traffic],
        "path": None if used.path is None else asdict(used.path),
        "formula": _plain_values(asdict(used.formula)),
        "norm_operations": list(used.operations),
        "redundant_operations": used.redundant,
        "extra_bytes": list(used.extra),
        "residual_bytes": list(used.residual),
    }


def _times(timing: "Timing", measured: bool) -> Record:
    """Return the times of the input that was timed; others have none."""
    if not measured:
        return {"latency_us": None}
    latency = {
        name: None if value is None else round(value * 1e6, 4)
        for name, value in asdict(timing.latency).items()
        if name != "samples"
    }
    return {
        "latency_us": latency,
        "repetitions": timing.latency.samples,
        "phases_us": {name: round(value * 1e6, 4) for name, value in timing.phases.items()},
        "phases_of_rank": timing.rank,
    }


def _plain_values(record: Mapping[str, Any]) -> Record:
    return {name: _plain(value) for name, value in record.items()}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, which knows no infinity: that becomes a word."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value
