"""The emulated cluster of bin/cluster, and hpccoll on several hosts, which it makes possible."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from hpccoll.collectives import COLLECTIVES

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "bin" / "cluster"
UNABLE = 77
SECONDS = 30.0
"""In which a cluster stands or has ended; it takes about one."""
ENVIRONMENT = Path(sys.executable).parents[1]
OPEN_MPI, MPICH = "openmpi", "mpich"
LONG_ENOUGH = ("sh", "-c", 'sleep 0.5; eval "$0"')
"""Open MPI 5.0.11's launcher now and then hangs if all ranks end within milliseconds."""
NETMODS = {OPEN_MPI: ["ucx"], MPICH: ["ucx", "ofi"]}
"""The first has no choice: its option is ignored."""


def holders(text):
    """Return the processes whose title has `text` in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        except OSError:
            continue
        if title.startswith("hpccoll-cluster:") and text in title:
            found.append(f"{folder.name} {title}")
    return found


def ended(text):
    """Tell whether all processes with this title end in time."""
    deadline = monotonic() + SECONDS
    while holders(text) and monotonic() < deadline:
        sleep(0.05)
    return not holders(text)


def cluster(*words):
    """Call bin/cluster without running anything on ranks."""
    return subprocess.run(
        [CLUSTER, *words], capture_output=True, text=True, timeout=2 * SECONDS, check=False
    )


@contextmanager
def up(name, *shape):
    """Have a cluster for the time of the block."""
    started = cluster("up", "--name", name, *shape)
    assert started.returncode == 0, started.stderr
    try:
        yield
    finally:
        cluster("down", "--name", name)


@pytest.fixture(scope="module")
def able():
    """Skip where no cluster can be emulated, and say why."""
    name = f"able-{os.getpid()}"
    tried = cluster("up", "--name", name, "--hosts", "1")
    if tried.returncode == UNABLE:
        pytest.skip(tried.stderr.strip().splitlines()[-1])
    assert tried.returncode == 0, tried.stderr
    assert cluster("down", "--name", name).returncode == 0


@pytest.fixture
def mpi(able):
    """Return the name of this environment's MPI, as bin/cluster knows it."""
    if ENVIRONMENT not in [ROOT / ".venv" / name for name in NETMODS]:
        pytest.skip(f"bin/cluster starts ranks in environments of {ROOT}/.venv, not {ENVIRONMENT}")
    return ENVIRONMENT.name


def shape(hosts, per_host):
    """Return options for a cluster; its links are slow enough for two cores."""
    return ["--hosts", hosts, "--ranks-per-host", per_host, "--rate", "200mbit"]


@pytest.fixture
def on_hosts(mpi, start):
    """Return a function that runs a program of these tests on several hosts."""

    def run(hosts, per_host, program, *words, netmod="ucx", limit=120.0):
        python = ["python", Path(__file__).parent / "programs" / f"{program}.py", *words]
        options = [*shape(hosts, per_host), "--mpi", mpi, "--netmod", netmod]
        with start(CLUSTER, "run", *options, "--", *python) as job:
            return job.finish(limit)

    return run


# The emulation


def pytest_generate_tests(metafunc):
    """Run tests of the network with every way to it that the library has."""
    if "netmod" in metafunc.fixturenames:
        metafunc.parametrize("netmod", NETMODS.get(ENVIRONMENT.name, ["ucx"]))


@pytest.mark.parametrize(("hosts", "per_host"), [(2, 2), (3, 1)])
def test_hosts_are_apart_and_hpccoll_sees_them(on_hosts, hosts, per_host, netmod):
    job = on_hosts(hosts, per_host, "hosts", netmod=netmod)
    assert job.code == 0, job.err
    found = json.loads(job.out)
    ranks, size = found["ranks"], hosts * per_host
    assert [seen["host"] for seen in ranks] == [f"node{r // per_host + 1}" for r in range(size)]
    assert (found["nodes"], {seen["node"] for seen in ranks}) == (hosts, {per_host})
    for rank, seen in enumerate(ranks):
        first = rank // per_host * per_host
        assert seen["files"] == [f"rank{r}" for r in range(first, first + per_host)]
    _assert_cores_are_shared(found, size)
    _assert_messages_take_the_network_between_hosts_only(ranks, per_host)
    _assert_nobody_leaves_the_barrier_early(ranks)
    _assert_clocks_are_right_within_their_bounds(ranks, per_host)


def _assert_cores_are_shared(found, size):
    cores = len(os.sched_getaffinity(0))
    assert (found["oversubscribed"] is not None) == (size > cores)
    assert found["level"] == ("multiple" if size > cores else "funneled")


def _assert_messages_take_the_network_between_hosts_only(ranks, per_host):
    length = 1 << 20
    for peer, sent in enumerate(ranks[0]["sent"], 1):
        if peer < per_host:
            assert sent < length / 10
        else:
            assert length < sent < 1.2 * length


def _assert_clocks_are_right_within_their_bounds(ranks, per_host):
    for rank, seen in enumerate(ranks):
        for error, bound in seen["clock_errors"]:
            # A tenth of a second at most, where clocks are thousands apart.
            assert (rank < per_host) == (bound == 0)
            assert abs(error) <= bound + 1e-6 < 0.1


def _assert_nobody_leaves_the_barrier_early(ranks):
    for times in zip(*(seen["passes"] for seen in ranks), strict=True):
        assert max(came for came, _ in times) <= min(left for _, left in times)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_killed_leaves_nothing(mpi, start, end):
    with start(CLUSTER, "run", *shape(2, 1), "--mpi", mpi, "--", "sleep", "1000") as job:
        name = f"run-{job.process.pid}"
        assert _waiting(job, 2)
        job.process.send_signal(end)
        job.finish(SECONDS)
        assert ended(name), holders(name)


def _waiting(job, ranks):
    """Tell whether all ranks come to sleep in time."""
    deadline = monotonic() + 2 * SECONDS
    while job.process.poll() is None and monotonic() < deadline:
        if sum(_name(process) == "sleep" for process in job.processes()) >= ranks:
            return True
        sleep(0.05)
    return False


def _name(process):
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:  # gone
        return None


def test_a_cluster_stays_up_until_it_is_put_down(mpi, start):
    name = f"stays-{os.getpid()}"
    with up(name, "--hosts", "2", "--rate", "200mbit"):
        assert f"cluster {name}: hosts node1 to node2, links of 200mbit" in cluster("status").stdout
        again = cluster("up", "--name", name)
        assert (again.returncode, "is up" in again.stderr) == (1, True)
        for _ in range(2):
            words = ["--name", name, "--mpi", mpi, "--", *LONG_ENOUGH, "uname -n"]
            with start(CLUSTER, "run", *words) as job:
                finished = job.finish(SECONDS)
            assert (finished.code, sorted(finished.out.split())) == (0, ["node1", "node2"])
        other = cluster("run", "--name", name, "--hosts", "3", "--mpi", mpi, "--", "true")
        assert (other.returncode, "hosts node1 to node2" in other.stderr) == (1, True)
    assert not holders(name)
    assert cluster("down", "--name", name).returncode == 1


def test_the_exit_code_is_the_commands(mpi, start):
    words = [*shape(2, 1), "--mpi", mpi, "--", *LONG_ENOUGH, "exit 7"]
    with start(CLUSTER, "run", *words) as job:
        assert job.finish(SECONDS).code == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the first word is run, up, status or down"),
        (["start"], "the first word is run, up, status or down, got 'start'"),
        (["run"], "what ranks run stands after --"),
        (["run", "--hosts", "0", "--", "true"], "--hosts takes a number from 1 to 999, got '0'"),
        (["up", "--rate", "fast"], "--rate takes what tc does, like 1gbit, got 'fast'"),
        (["up", "--hosts"], "--hosts needs a value"),
        (["run", "--netmod", "tcp", "--", "true"], "--netmod is ucx or ofi, got 'tcp'"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, said):
    refused = cluster(*words)
    assert refused.returncode == 2
    assert said in refused.stderr


# hpccoll between hosts


@pytest.mark.parametrize(("hosts", "per_host", "size"), [(2, 2, "64KiB"), (3, 1, "1000")])
def test_every_algorithm_is_right_between_hosts(on_hosts, tmp_path, hosts, per_host, size):
    options = ["--repetitions", "2", "--warmup", "0", "--sizes", size]
    commands = [
        ["", "bench", name, *(options if of.moves_data else options[:-2])]
        for name, of in COLLECTIVES.items()
    ]
    files = [tmp_path / f"{name}.jsonl" for name in COLLECTIVES]
    for command, file in zip(commands, files, strict=True):
        command += ["-o", f"{file}"]
    job = on_hosts(hosts, per_host, "commands", json.dumps(commands), limit=300)
    assert job.code == 0, job.err
    for file in files:
        run, *records = map(json.loads, file.read_text().splitlines())
        assert (run["ranks"], run["nodes"]) == (hosts * per_host, hosts)
        assert {r["check"] for r in records if r["type"] == "measurement"} == {"ok"}, file.name


def test_calls_begin_at_an_agreed_time_on_clocks_that_differ(on_hosts, tmp_path):
    file = tmp_path / "window.jsonl"
    words = ["bench", "allreduce", "-a", "ring", "--sizes", "1000", "--sync", "window"]
    commands = [["", *words, "--repetitions", "20", "-o", f"{file}"]]
    job = on_hosts(3, 1, "commands", json.dumps(commands))
    assert job.code == 0, job.err
    assert re.search(r"at an agreed time; clocks are right to [\d.]+ us", job.out)
    run, *records = map(json.loads, file.read_text().splitlines())
    # On clocks that were taken for one, a call would take a thousand seconds, or less than nothing.
    assert 0 < run["clock_error_us"] < 1e5
    assert all(0 < record["latency_us"]["min"] < 1e6 for record in records)
