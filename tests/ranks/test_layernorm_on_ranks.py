"""Every order of reduce, norm and broadcast does on real ranks what theory says of it.

The program's first request has shares that are equal on all ranks: there the formulas hold.
"""

import json

import pytest

from hpccoll.layernorm.inputs import INPUTS
from hpccoll.layernorm.orders import ORDERS
from hpccoll.layernorm.reading import read
from hpccoll.layernorm.report import Report
from hpccoll.layernorm.theory import THEORY

LIMIT = 240.0
"""Seconds for all orders, inputs and types on more ranks than cores."""

WIDEST = 120
"""Columns of the tables."""

LOSING = '''
from hpccoll.registry import algorithm


@algorithm("allreduce", rounds="0", sent="0")
def nothing(rank, size):
    """Leave every rank with its own vector."""
    return iter(())
'''


@pytest.fixture(params=[1, 2, 3, 4, 5, 7, 8])
def reported(launcher, request):
    """Return the number of ranks and what a job found out of every request."""
    job = launcher.run(request.param, "norm_orders", limit=LIMIT)
    assert job.code == 0, job.err
    return request.param, json.loads(job.out)


def test_every_order_does_what_theory_says(reported):
    ranks, requests = reported
    for found in requests:
        assert {one["label"] for one in found["orders"]} >= set(ORDERS) - set(found["skipped"])
        assert not contradicted(found["orders"]), found["given"]
        assert not contradicted(found["backward"]), found["given"]
        own = [one for one in found["orders"] if one["label"] in ORDERS]
        assert all(one["same_bits"] for one in (*own, *found["backward"]))
    check_verdicts(ranks, requests[0])
    check_exactness(requests)
    check_costs(ranks, requests)
    check_backward(ranks, requests[0])


def contradicted(judged):
    return [one for one in judged if one["verdict"] not in ("agrees", "no verdict")]


def check_verdicts(ranks, found):
    """In float32 every order has a verdict, and with some input every wrong one is told."""
    assert found["inputs"] == list(INPUTS)
    assert {one["verdict"] for one in found["orders"]} == {"agrees"}
    told = {one["order"] for one in found["orders"] if one["told"]}
    wrong = {name for name, theory in THEORY.items() if not theory.correct}
    assert told == (wrong if ranks > 1 else set())
    unseen = {(o["order"], o["input"]) for o in found["orders"] if not (o["correct"] or o["told"])}
    assert ("bcast-reduce-layernorm", "replicated") in unseen
    for one in found["orders"]:
        assert one["told"] == (one["predicted"] > one["bound"])
        if one["told"]:
            assert one["deviation"] == pytest.approx(one["predicted"], rel=1e-3)


def check_exactness(requests):
    """Sums in the order of the ranks have its bits, and so has any sum of small integers."""
    for found in requests:
        for one in found["orders"]:
            if not one["correct"] or one["order"] == "hidden-parallel":
                continue  # whose statistics are merged, and so rounded otherwise
            if one["order"] in ("one-shot", "gather-layernorm-bcast") or one["input"] == "integers":
                assert one["bit_equal"] == 1, (found["given"], one["label"], one["input"])


def check_costs(ranks, requests):
    """What is counted is what the formulas say, and these say something of every order."""
    first, *_ = requests
    for found in requests:
        for label, used in found["used"].items():
            for name, value in used["formula"].items():
                case = (found["given"], label, name)
                if value is None or used["exact"] or name == "rounds":
                    assert value in (None, used["counted"][name]), case
                else:
                    assert used["counted"][name] <= value, case
            assert used["exact"] or found["given"].get("accumulate") == "float32"
            assert (used["counted"]["sent"] is None) == label.endswith("(library)")
    used = {name: first["used"][name] for name in ORDERS}
    n, log = first["used"]["fused"]["bytes"], (ranks - 1).bit_length()
    assert [name for name in ORDERS if used[name]["formula"]["rounds"] is None] == []
    assert used["allreduce-layernorm"]["counted"] == {
        "rounds": 2 * (ranks - 1),
        **dict.fromkeys(("path", "sent", "received"), 2 * (ranks - 1) * n // ranks),
        "total": 2 * (ranks - 1) * n,
    }
    assert used["reduce-layernorm-bcast"]["counted"] == {
        "rounds": 2 * log,
        "path": 2 * log * n,
        "sent": log * n,
        "received": log * n,
        "total": 2 * (ranks - 1) * n,
    }
    assert used["one-shot"]["counted"]["received"] == (ranks - 1) * n
    assert used["gather-layernorm-bcast"]["counted"]["received"] == (ranks - 1) * n
    assert used["fused"]["counted"]["rounds"] == (4 - 1 + 2 * (ranks - 1) if ranks > 1 else 0)
    check_work(ranks, used)


def check_work(ranks, used):
    """Norms and the residual are where the order says."""
    least = used["fused"]["least"]
    root = [least] + [0] * (ranks - 1)
    for name in ("reduce-layernorm-bcast", "reduce-layernorm-bcast-large", "fused"):
        assert used[name]["operations"] == root
        assert [bool(size) for size in used[name]["residual"]] == [
            rank == 0 for rank in range(ranks)
        ]
    assert used["allreduce-layernorm"]["operations"] == [least] * ranks
    assert used["allreduce-layernorm"]["residual"] == [used["fused"]["bytes"]] * ranks
    for name in ("sequence-parallel", "hidden-parallel"):
        assert used[name]["operations"] == [least // ranks] * ranks
        assert used[name]["residual"] == [used["fused"]["bytes"] // ranks] * ranks


def check_backward(ranks, found):
    """The backward pass moves what the forward pass does, and C the gradients of its parameters."""
    by_name = {one["name"]: one for one in found["backward"] if one["input"] == "iid"}
    sent, forward = found["backward_sent"], found["used"]
    for name in ("allreduce-layernorm", "reduce-layernorm-bcast", "sequence-parallel-unsummed"):
        order = name.removesuffix("-unsummed")
        assert sent[name] == forward[order]["sent"]
    if ranks == 1:
        return
    assert sum(sent["sequence-parallel"]) > sum(sent["sequence-parallel-unsummed"])
    twice = by_name["allreduce-layernorm-twice"]["dgamma"]
    assert twice["predicted"] == pytest.approx(ranks - 1)
    assert by_name["sequence-parallel-unsummed"]["dgamma"]["predicted"] > 0.1
    for one in by_name.values():
        gradient = one["dgamma"]
        assert gradient["deviation"] == pytest.approx(gradient["predicted"], abs=1e-4)


# The command


def small(launcher, *words, ranks=3):
    return launcher.hpccoll(
        ranks,
        *("layernorm", "--tokens", 8, "--hidden", 16, "--time-budget", 0.01, "--repetitions", 6),
        *words,
    )


def test_the_command_prints_tables_and_writes_a_record_of_every_order_and_input(launcher, tmp_path):
    file = tmp_path / "norms.jsonl"
    job = small(launcher, "--input", "iid,replicated", "--backward", "--library", "-o", file)
    assert job.code == 0, job.err
    assert all(name in job.out for name in (*ORDERS, "RESOURCES", "TIMES", "BACKWARD", "skipped"))
    assert max(map(len, job.out.splitlines())) <= WIDEST
    run, *records = map(json.loads, file.read_text().splitlines())
    assert (run["type"], run["ranks"], run["tokens"], run["dtype"]) == ("run", 3, 8, "float32")
    orders = [record for record in records if record["type"] == "order"]
    own = {(one["order"], one["input"]) for one in orders if one["label"] == one["order"]}
    assert own == {(name, given) for name in ORDERS for given in ("iid", "replicated")}
    assert all((one["latency_us"] is not None) == (one["input"] == "iid") for one in orders)
    assert {one["label"] for one in records if one["type"] == "skipped"} == {
        "fused (library)",
        "reduce-layernorm-bcast-large (library)",
    }
    backward = [record for record in records if record["type"] == "backward"]
    assert {one["verdict"] for one in (*orders, *backward)} == {"agrees"}


def test_a_report_of_a_run_is_that_of_its_records(launcher, tmp_path):
    file, at_once, later = (tmp_path / name for name in ("norms.jsonl", "a.html", "b.html"))
    given = ("--input", "iid,constant", "--backward", "--library")
    job = small(launcher, *given, "-o", file, "--report", at_once, ranks=2)
    assert job.code == 0, job.err
    Report(later).make(read(file))
    assert all(name in at_once.read_text() for name in ORDERS)
    assert at_once.read_text() == later.read_text()


def test_a_collective_that_loses_data_contradicts_theory(launcher, tmp_path):
    plugin = tmp_path / "losing.py"
    plugin.write_text(LOSING)
    job = small(
        launcher,
        *("--plugin", plugin, "--algorithm", "allreduce=nothing"),
        *("--ordering", "allreduce-layernorm,sequence-parallel"),
    )
    assert job.code == 1
    assert "1 result is not what theory says" in job.err
    rows = {line.split()[0]: line for line in job.out.splitlines() if " right " in line}
    assert "CONTRADICTS" in rows["allreduce-layernorm"]
    assert "agrees" in rows["sequence-parallel"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--eps", "-1"], "eps must be finite"),
        (["--hidden", "0"], "0 is not in the range"),
        (["--ordering", "allreduce-layernrom"], "did you mean allreduce-layernorm?"),
        (["--input", "idd"], "did you mean iid?"),
        (["--algorithm", "reduce=ring"], "unknown reduce algorithm 'ring'"),
        (["--tokens", "9999999", "--hidden", "999999"], "use smaller --tokens or --hidden"),
        (["--dtype", "float64", "--accumulate", "float32"], "is for float16 and bfloat16"),
    ],
)
def test_what_cannot_be_done_is_said_once(launcher, words, said):
    job = small(launcher, *words, ranks=2)
    assert job.code == 2
    assert job.err.count(said) == 1
    assert "Traceback" not in job.err
