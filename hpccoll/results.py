"""The records: one JSON object per line, the run first, then what was measured, as it is done."""

import csv
import io
import json
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from hpccoll import clock
from hpccoll.choice import Choice
from hpccoll.cost import evaluate
from hpccoll.errors import unwritable
from hpccoll.parameter import format_value

if TYPE_CHECKING:
    from hpccoll.conditions import Conditions
    from hpccoll.launch import Launch
    from hpccoll.layout import Message
    from hpccoll.measurement import Measurement
    from hpccoll.request import Request
    from hpccoll.world import World

SCHEMA = 1

_VARIABLES = re.compile(
    "OMPI_MCA_|PRTE_MCA_|PMIX_MCA_|MPIR_|MPICH_|I_MPI_|UCX_|UCC_|FI_|SLURM_|PBS_|OMP_|MPI4PY_|"
    "HYDRA_|CUDA_VISIBLE|NCCL_"
)
_SECRET = re.compile("TOKEN|KEY|JWT|SECRET|PASSW|COOKIE|CRED", re.IGNORECASE)

Record = dict[str, Any]


def run_record(
    request: "Request", world: "World", launch: "Launch", conditions: "Conditions"
) -> Record:
    """Return the first line of a file: what ran, where, and with what."""
    return {
        **place_record(request.seed, world, launch),
        **conditions.record(),
        "sample": "time of one call on the slowest rank",
        "bytes_are": request.collective.bytes_are,
        "baseline": request.baseline,
        "busbw_factor": request.collective.busbw,
        "in_place_means": request.collective.in_place,
        "environment": relevant_environment(os.environ),
    }


def place_record(seed: int, world: "World", launch: "Launch") -> Record:
    """Return the fields that the first lines of all files begin with: where a run was."""
    return {
        "type": "run",
        "schema": SCHEMA,
        "hpccoll": version("hpccoll"),
        "start": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "argv": sys.argv,
        "seed": seed,
        "ranks": world.size,
        "nodes": world.nodes,
        "placement": world.placement.spelling,
        "hosts": world.hosts,
        "cores": world.cores,
        "oversubscribed": world.oversubscribed,
        "library": world.library,
        "library_version": world.library_version,
        "mpi_standard": world.standard,
        "thread_level": world.thread_level,
        "thread_level_reason": world.thread_reason,
        "launcher": launch.launcher,
        "job": job(os.environ),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "mpi4py": version("mpi4py"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "clock": clock.describe(),
    }


def relevant_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can change results, those that look secret left out."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if _VARIABLES.match(name) and not _SECRET.search(name)
    }


_JOB = {
    "id": "SLURM_JOB_ID",
    "array": "SLURM_ARRAY_JOB_ID",
    "array_element": "SLURM_ARRAY_TASK_ID",
    "step": "SLURM_STEP_ID",
    "restarts": "SLURM_RESTART_COUNT",
    "partition": "SLURM_JOB_PARTITION",
    "hosts": "SLURM_JOB_NODELIST",
    "binding": "SLURM_CPU_BIND",
}


def job(environment: Mapping[str, str]) -> dict[str, str | None] | None:
    """Return the batch job as Slurm numbers it, where it runs and how ranks are bound, if any."""
    if "SLURM_JOB_ID" not in environment:
        return None
    return {field: environment.get(name) for field, name in _JOB.items()}


def cpu_model() -> str:
    """Return the processor's name as the kernel gives it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.processor()


def measurement_record(request: "Request", world: "World", measured: "Measurement") -> Record:
    """Return the line of one measurement."""
    latency = {
        name: None if value is None else round(value * 1e6, 4)
        for name, value in asdict(measured.latency).items()
        if name != "samples"
    }
    algbw, busbw = bandwidths(request, world.size, measured)
    return {
        "type": "measurement",
        **_cell(request, world, measured.algorithm, measured.parameters, measured.message),
        "op": measured.operator if request.collective.reduces else None,
        "chosen_by_model": list(measured.chosen),
        "engine": measured.engine,
        "function": measured.function,
        "selection": None if measured.selection is None else measured.selection.record(),
        "accumulate": request.accumulate,
        "segment": request.segmentation.bytes,
        "window": request.segmentation.window,
        "placement": request.placement.spelling if request.placement else None,
        "sync": request.sync,
        "arrival": asdict(request.arrival),
        "touch": request.touch,
        "cold": request.cold,
        "repetitions": measured.latency.samples,
        "warmup": measured.warmup,
        "stopped_by": measured.stopped_by,
        "target_ci": request.target_ci,
        "target_met": measured.target_met,
        "late": measured.late,
        "all_late": measured.all_late,
        "skew_us": None if measured.skew is None else measured.skew * 1e6,
        "canary_us": {"spin": measured.canary[0] * 1e6, "barrier": measured.canary[1] * 1e6},
        "first_us": round(measured.first * 1e6, 4),
        "latency_us": latency,
        "verdict": None if measured.verdict is None else asdict(measured.verdict),
        "straggler": None if measured.straggler is None else asdict(measured.straggler),
        **_samples(request, measured),
        "algbw_GBps": algbw,
        "busbw_GBps": busbw,
        "check": measured.check,
        "mismatches": [str(mismatch) for mismatch in measured.mismatches],
    }


def _samples(request: "Request", measured: "Measurement") -> Record:
    if not request.keep_samples:
        return {}
    return {"samples_us": [round(sample * 1e6, 4) for sample in measured.samples]}


def skipped_record(
    request: "Request", world: "World", algorithm: str, message: "Message", reason: str
) -> Record:
    """Return the line of an algorithm that was asked for but can't run here."""
    return {
        "type": "skipped",
        **_cell(request, world, algorithm, {}, message),
        "reason": reason,
    }


def _cell(
    request: "Request",
    world: "World",
    algorithm: str,
    parameters: Mapping[str, Any],
    message: "Message",
) -> Record:
    return {
        "collective": request.collective.name,
        "algorithm": algorithm,
        "parameters": {
            name: format_value(value) if isinstance(value, Choice) else value
            for name, value in parameters.items()
        },
        "ranks": world.size,
        "nodes": world.nodes,
        "bytes": message.count * message.itemsize,
        "count": message.count,
        "dtype": request.dtype.name,
        "op": request.operator.name if request.collective.reduces else None,
        "root": message.root if request.collective.rooted else None,
        "in_place": request.in_place or request.collective.one_buffer,
        "counts": request.shares.pattern,
    }


def bandwidths(request: "Request", size: int, measured: "Measurement") -> tuple[float, float]:
    """Return algorithm and bus bandwidth of the median, in 1e9 bytes per second."""
    if measured.latency.p50 <= 0:
        return 0.0, 0.0
    algbw = measured.bytes / measured.latency.p50 / 1e9
    return algbw, algbw * float(evaluate(request.collective.busbw, size))


class Writer:
    """A JSON Lines file; every line is complete and flushed before the next begins.

    Raises
    ------
    UsageError
        The file exists and isn't to be overwritten, or can't be written.
    """

    def __init__(self, path: Path, force: bool = False) -> None:
        try:
            self._file: IO[str] = path.open("w" if force else "x", encoding="utf-8")
        except OSError as error:
            raise unwritable(path, error) from None

    def write(self, *records: Record) -> None:
        """Append one line each."""
        self._file.write("".join(to_json(record) + "\n" for record in records))
        self._file.flush()

    @property
    def file(self) -> int:
        """Return the open file's descriptor."""
        return self._file.fileno()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def to_json(record: Record) -> str:
    """Return one line of JSON."""
    return json.dumps(record, separators=(", ", ": "), allow_nan=False)


CSV_COLUMNS = (
    *("type", "collective", "algorithm", "parameters", "chosen_by_model", "ranks", "nodes"),
    *("bytes", "count", "dtype"),
    *("op", "root", "in_place", "engine", "function", "repetitions", "warmup", "stopped_by"),
    *("first_us", "min_us", "p50_us", "mean_us", "p90_us", "p99_us", "max_us", "ci_low_us"),
    *("ci_high_us", "algbw_GBps", "busbw_GBps", "check", "mismatches", "reason"),
)
"""The columns of CSV output, for measured and skipped cells alike."""


def to_csv(record: Record) -> str:
    """Return a record as one line of CSV, with the columns `CSV_COLUMNS`."""
    cells = record | {f"{name}_us": us for name, us in record.get("latency_us", {}).items()}
    cells["parameters"] = ":".join(
        f"{name}={format_value(value)}" for name, value in record["parameters"].items()
    )
    cells["chosen_by_model"] = ":".join(record.get("chosen_by_model", ()))
    cells["mismatches"] = "; ".join(record.get("mismatches", ()))
    return csv_line([cells.get(name) for name in CSV_COLUMNS])


def csv_line(cells: Sequence[object]) -> str:
    """Return one line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["" if cell is None else cell for cell in cells])
    return line.getvalue()
