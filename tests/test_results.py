"""Records: valid JSON a line, whole lines at any moment, one set of columns."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpccoll import results
from hpccoll.check import Mismatch
from hpccoll.collectives import COLLECTIVES
from hpccoll.conditions import Conditions
from hpccoll.cost import evaluate
from hpccoll.errors import UsageError
from hpccoll.launch import Launch
from hpccoll.layout import Message
from hpccoll.measurement import Measurement
from hpccoll.parsing import build
from hpccoll.placement import Placement
from hpccoll.results import CSV_COLUMNS, Writer
from hpccoll.spelling import choose
from hpccoll.stats import compare, summarize
from hpccoll.straggler import Straggler

WORLD = SimpleNamespace(
    size=4,
    rank=0,
    nodes=1,
    hosts=("here",) * 4,
    cores=((0,), (1,), (2,), (3,)),
    placement=Placement("aaaa"),
    oversubscribed=None,
    library="Some MPI 1.0",
    library_version='Some "MPI", version 1.0\nbuilt today',
    standard="4.1",
    thread_level="funneled",
    thread_reason="no more ranks than cores",
)


CONDITIONS = Conditions(
    engine="native",
    without_native="",
    sync="barrier",
    barrier="a barrier",
    touch=True,
    cold=False,
    skew=0.2e-6,
    skew_p99=0.5e-6,
    clock_error=0.0,
    empty=0.03e-6,
    library=0.1e-6,
    unbound=0,
    ranks=4,
)


def request_of(name="allreduce", in_place=False, **given):
    """Return what would be measured."""
    return build(
        name,
        no_library=False,
        min_bytes=None,
        max_bytes=None,
        factor=None,
        size_list="64" if COLLECTIVES[name].moves_data else None,
        op="sum",
        root_text="all",
        no_check=False,
        in_place=in_place,
        repetitions=10,
        warmup=1,
        time_budget=1.0,
        seed=0,
        timeout=60.0,
        **{"dtype": "float32", "algorithm": "all"} | given,
    )


def measurement(samples=(2e-6, 1e-6, 3e-6), mismatches=(), said=None, **parameters):
    """Return what might have been measured; `said` are fields that may be None."""
    return Measurement(
        collective="allreduce",
        algorithm="ring",
        label="ring",
        parameters=parameters,
        engine="python",
        function="MPI_Isend, MPI_Irecv",
        bytes=64,
        message=Message(count=16, itemsize=4),
        operator="sum",
        latency=summarize(samples),
        samples=tuple(samples),
        first=5e-6,
        warmup=1,
        stopped_by="repetitions",
        target_met=False,
        late=0,
        canary=(2e-6, 0.3e-6),
        check="failed" if mismatches else "ok",
        mismatches=tuple(mismatches),
        **{"skew": None} | (said or {}),
    )


SAID = {
    "skew": 0.2e-6,
    "verdict": compare([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
    "straggler": Straggler(3, "here", 0.9, 4e-6),
}
MISMATCH = Mismatch(rank=1, index=3, expected="4.0", got="nan", wrong=2)


def records(name="allreduce"):
    """Return a record of every kind."""
    asked = request_of(name)
    return [
        results.run_record(asked, WORLD, Launch(None, 0, 1, 1, False, False), CONDITIONS),
        results.measurement_record(asked, WORLD, measurement(said=SAID)),
        results.measurement_record(asked, WORLD, measurement(mismatches=[MISMATCH], segments=2)),
        results.measurement_record(asked, WORLD, measurement(samples=[1e-6] * 9, shape=(3, 4))),
        results.skipped_record(asked, WORLD, "tree", Message(16, 4), 'needs "more", got less'),
    ]


def strict(line):
    """Read a line as JSON, without Python's extensions to it."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(line, parse_constant=refuse)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_record_is_one_line_of_strict_json(name):
    for record in records(name):
        line = results.to_json(record)
        assert "\n" not in line
        read = strict(line)
        assert list(read) == list(record)
        assert read["type"] in ("run", "measurement", "skipped")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_cannot_say_is_not_written(tmp_path, value):
    path = tmp_path / "out.jsonl"
    with Writer(path) as writer:
        writer.write({"a": 1})
        with pytest.raises(ValueError, match="not JSON compliant"):
            writer.write({"a": value})
    assert path.read_text() == '{"a": 1}\n'


def test_every_line_is_whole_once_it_is_written(tmp_path):
    path = tmp_path / "out.jsonl"
    with Writer(path) as writer:
        for number, record in enumerate(records(), 1):
            writer.write(record)
            text = path.read_text()
            assert text.endswith("\n")
            assert len([strict(line) for line in text.splitlines()]) == number


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious\n")
    with pytest.raises(UsageError) as at:
        Writer(path)
    assert str(at.value) == (
        f"{path} exists; choose another --output, or overwrite it with --force"
    )
    assert path.read_text() == "precious\n"
    with Writer(path, force=True) as writer:
        writer.write({"a": 1})
    assert path.read_text() == '{"a": 1}\n'


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("missing", ["nowhere/out.jsonl", "file/out.jsonl"])
def test_a_path_that_cannot_be_written_is_refused_with_a_remedy(tmp_path, missing, force):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"can't be written: .*; choose another --output"):
        Writer(tmp_path / missing, force)


def test_a_directory_is_not_overwritten(tmp_path):
    with pytest.raises(UsageError, match="can't be written: Is a directory; choose another"):
        Writer(tmp_path, force=True)


# Contents


def test_times_are_in_microseconds_and_bandwidths_those_of_the_median():
    record = results.measurement_record(request_of(), WORLD, measurement())
    assert record["latency_us"]["p50"] == 2.0
    assert (record["latency_us"]["min"], record["latency_us"]["max"]) == (1.0, 3.0)
    assert (record["latency_us"]["ci_low"], record["latency_us"]["ci_high"]) == (None, None)
    assert record["first_us"] == 5.0
    assert record["repetitions"] == 3
    assert record["algbw_GBps"] == pytest.approx(64 / 2e-6 / 1e9)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_bus_bandwidth_has_the_collectives_factor(name):
    asked = request_of(name)
    algbw, busbw = results.bandwidths(asked, 4, measurement())
    assert busbw == pytest.approx(algbw * float(evaluate(asked.collective.busbw, 4)))


def test_no_time_has_no_bandwidth():
    assert results.bandwidths(request_of(), 4, measurement(samples=[0.0])) == (0.0, 0.0)


def test_a_record_says_how_it_was_measured():
    asked = request_of(
        dtype="float16",
        accumulate="float32",
        segment="32",
        window=3,
        sync="none",
        arrival="late:1:2us",
    )
    record = results.measurement_record(asked, WORLD, measurement())
    assert record["accumulate"] == "float32"
    assert (record["segment"], record["window"], record["sync"]) == (32, 3, "none")
    assert record["arrival"] == {"kind": "late", "seconds": pytest.approx(2e-6), "rank": 1}
    assert record["canary_us"] == {"spin": 2.0, "barrier": pytest.approx(0.3)}


def test_what_may_be_unknown_is_null_or_has_its_fields():
    asked = request_of()
    bare = results.measurement_record(asked, WORLD, measurement())
    full = results.measurement_record(asked, WORLD, measurement(said=SAID))
    assert [bare[name] for name in ("skew_us", "verdict", "straggler")] == [None] * 3
    assert full["skew_us"] == pytest.approx(0.2)
    assert set(full["verdict"]) == {"ratio", "word", "p_value", "a12"}
    assert full["straggler"] == {"rank": 3, "host": "here", "share": 0.9, "behind": 4e-6}


def test_samples_are_kept_in_their_order_if_that_is_asked():
    measured = measurement(samples=(2e-6, 1e-6, 3e-6))
    assert "samples_us" not in results.measurement_record(request_of(), WORLD, measured)
    record = results.measurement_record(request_of(keep_samples=True), WORLD, measured)
    assert record["samples_us"] == [2.0, 1.0, 3.0]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_operator_and_root_stand_where_there_are_any(name):
    record = results.measurement_record(request_of(name), WORLD, measurement())
    assert (record["op"] is not None) == COLLECTIVES[name].reduces
    assert (record["root"] is not None) == COLLECTIVES[name].rooted
    assert record["in_place"] == COLLECTIVES[name].one_buffer


def test_mismatches_stand_in_words():
    record = results.measurement_record(request_of(), WORLD, measurement(mismatches=[MISMATCH]))
    assert record["check"] == "failed"
    assert record["mismatches"] == [
        "rank 1, index 3: expected 4.0, got nan (2 wrong in all)",
    ]


def test_what_the_model_chose_is_recorded():
    said = {"chosen": ("segments",)}
    record = results.measurement_record(request_of(), WORLD, measurement(said=said, segments=8))
    assert (record["parameters"], record["chosen_by_model"]) == ({"segments": 8}, ["segments"])
    row = dict(zip(CSV_COLUMNS, next(csv.reader([results.to_csv(record)])), strict=True))
    assert (row["parameters"], row["chosen_by_model"]) == ("segments=8", "segments")


# CSV


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_csv_line_has_the_cells_of_the_columns(name):
    lines = [results.csv_line(CSV_COLUMNS), *map(results.to_csv, records(name)[1:])]
    assert not any("\n" in line for line in lines)
    title, *rows = csv.reader(io.StringIO("\n".join(lines)))
    assert tuple(title) == CSV_COLUMNS
    assert {len(row) for row in rows} == {len(CSV_COLUMNS)}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_csv_says_the_same_as_json(number):
    record = records()[number]
    row = dict(zip(CSV_COLUMNS, next(csv.reader([results.to_csv(record)])), strict=True))
    known = set(CSV_COLUMNS) & set(record) - {"parameters", "chosen_by_model", "mismatches"}
    for name in known:
        assert row[name] == ("" if record[name] is None else str(record[name]))
    for name, us in record.get("latency_us", {}).items():
        assert row[f"{name}_us"] == ("" if us is None else str(us))


ASKED = {
    *("accumulate", "segment", "window", "sync", "arrival", "touch", "cold", "target_ci"),
    *("counts", "placement"),
}
"""Fields of how was measured, which are the same in every line of one run."""
JSON_ONLY = {
    "target_met",
    "late",
    "all_late",
    "skew_us",
    "canary_us",
    "verdict",
    "straggler",
    "selection",
}


def test_csv_has_a_column_for_every_time_and_what_it_is_of():
    _, measured, _, _, skipped = records()
    flat = set(measured) | set(skipped) | {f"{name}_us" for name in measured["latency_us"]}
    assert flat - {"latency_us"} - ASKED - JSON_ONLY == set(CSV_COLUMNS)


def test_csv_writes_parameters_as_the_command_line_does():
    _, _, segmented, shaped, _ = map(results.to_csv, [records()[1], *records()[1:]])
    assert ",segments=2," in segmented
    assert ",shape=3x4," in shaped


def test_parts_are_recorded_as_they_are_spelled():
    (choice,) = choose("allreduce", "two-level:across=ring/segments=4")
    record = results.measurement_record(request_of(), WORLD, measurement(**choice.values))
    assert record["parameters"] == {
        "inside": "binomial",
        "across": "ring/segments=4",
        "back": "binomial",
    }
    assert "inside=binomial:across=ring/segments=4:back=binomial" in results.to_csv(record)


def test_the_placement_that_counts_is_recorded():
    asked = request_of(algorithm="two-level", nodes="2").placed(WORLD.placement)
    assert results.measurement_record(asked, WORLD, measurement())["placement"] == "2x2"
    run = results.run_record(asked, WORLD, Launch(None, 0, 1, 1, False, False), CONDITIONS)
    assert run["placement"] == "1x4"


# Environment


def test_the_environment_keeps_what_changes_results_and_no_secrets():
    kept = {
        "OMPI_MCA_btl": "^ofi",
        "MPICH_ASYNC_PROGRESS": "1",
        "I_MPI_DEBUG": "5",
        "UCX_TLS": "all",
        "FI_PROVIDER": "tcp",
        "SLURM_JOB_ID": "7",
        "PBS_JOBID": "8",
        "OMP_NUM_THREADS": "2",
        "MPI4PY_LIBMPI": "libmpi.so",
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_ALGO": "Ring",
    }
    dropped = {
        "PATH": "/bin",
        "HOME": "/",
        "MY_OMP_NUM_THREADS": "2",
        "SLURM_JWT": "x",
        "PBS_JOBCOOKIE": "x",
        "SLURM_REST_TOKEN": "x",
        "FI_api_key": "x",
        "I_MPI_PASSWORD": "x",
        "OMPI_MCA_secret": "x",
        "UCX_CREDENTIALS": "x",
    }
    found = results.relevant_environment(dropped | kept)
    assert found == kept
    assert list(found) == sorted(kept)


def test_a_batch_job_is_named_with_its_array_its_hosts_and_its_binding():
    assert results.job({"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf"}) is None
    environment = {
        "SLURM_JOB_ID": "46",
        "SLURM_ARRAY_JOB_ID": "45",
        "SLURM_ARRAY_TASK_ID": "7",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_PARTITION": "main",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
    }
    assert results.job(environment) == {
        "id": "46",
        "array": "45",
        "array_element": "7",
        "step": None,
        "restarts": None,
        "partition": "main",
        "hosts": "n[1-2]",
        "binding": "quiet,mask_cpu:0x1",
    }


def test_the_run_record_names_the_batch_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "46")
    assert records()[0]["job"]["id"] == "46"
    monkeypatch.delenv("SLURM_JOB_ID")
    assert records()[0]["job"] is None


def test_the_run_record_describes_the_machine():
    run = records()[0]
    assert run["type"] == "run"
    assert (run["ranks"], run["nodes"], run["library"]) == (4, 1, "Some MPI 1.0")
    assert run["clock"]["resolution_s"] > 0
    assert "bytes of one rank's vector" in run["bytes_are"]
    assert run["overhead_us"] == {
        "empty_plan": pytest.approx(0.03),
        "library_iprobe": pytest.approx(0.1),
    }
    assert run["skew_us"] == {"p50": pytest.approx(0.2), "p99": pytest.approx(0.5)}
    assert (run["engine"], run["engine_reason"], run["unbound_ranks"]) == ("native", None, 0)
    assert run["cpu"] or not Path("/proc/cpuinfo").exists()
