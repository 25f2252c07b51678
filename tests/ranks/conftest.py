"""Jobs: how a test starts several ranks, with a time limit, and that nothing of them is left."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

collect_ignore = ["programs"]

PROGRAMS = Path(__file__).parent / "programs"
LIMIT = 60.0
"""Seconds that a job may take; none comes near."""
GONE = 3.0
"""Seconds after the launcher's end in which its ranks must have ended as well."""


@dataclass(frozen=True)
class Finished:
    """What a job left: its exit code, what it printed, and how many seconds it took."""

    code: int
    out: str
    err: str
    seconds: float


class Job:
    """A launcher and its ranks, which are known by a mark in their environment."""

    def __init__(self, command: list[str], folder: Path, stdin: int) -> None:
        self._mark = f"HPCCOLL_TEST_JOB={uuid.uuid4().hex}"
        self._streams = [folder / "stdout", folder / "stderr"]
        self.began = monotonic()
        # Files rather than pipes: output to a file is what must hold no escape codes.
        with self._streams[0].open("wb") as out, self._streams[1].open("wb") as err:
            self.process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=out,
                stderr=err,
                env=_environment() | dict([self._mark.split("=")]),
                start_new_session=True,
            )

    def finish(self, limit: float = LIMIT) -> Finished:
        """Wait for the end, which must come within `limit` seconds and leave no process."""
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self._printed()
            pytest.fail(f"the job didn't end within {limit} s\n{out}\n{err}", pytrace=False)
        seconds = monotonic() - self.began
        left = self._left()
        self.kill()
        assert not left, f"processes that outlived the launcher: {left}\n{self._printed()}"
        return Finished(code, *self._printed(), seconds)

    def processes(self) -> list[int]:
        """Return what is there of this job, launcher and daemons included."""
        return _processes(self._mark)

    def kill(self) -> None:
        """Kill whatever is still there of this job."""
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()

    def _left(self) -> list[int]:
        deadline = monotonic() + GONE
        while (left := self.processes()) and monotonic() < deadline:
            sleep(0.02)
        return left

    def _printed(self) -> list[str]:
        return [stream.read_text() for stream in self._streams]


def _processes(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # another user's, or gone
            continue
    return found


def _environment() -> dict[str, str]:
    # A library named from outside may not be the launcher's; buffering is what users have.
    unwanted = {"PYTHONUNBUFFERED", "MPI4PY_LIBMPI", "MPI4PY_MPIABI", "NO_COLOR"}
    variables = {name: value for name, value in os.environ.items() if name not in unwanted}
    # Looking for a fabric takes Open MPI a second per start, and ranks of one node never use it.
    variables.setdefault("OMPI_MCA_btl", "^ofi")
    # MPICH 5.0.2's collectives for shared memory sometimes hang or abort on a busy machine, by
    # themselves: these tests are of hpccoll.
    variables.setdefault("MPIR_CVAR_DEVICE_COLLECTIVES", "none")
    if os.getuid() == 0:
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def _cores() -> int:
    """Return the cores as Open MPI counts them: hardware threads of one core are one."""
    threads = os.sched_getaffinity(0)
    siblings = {
        path.read_text() if path.exists() else str(thread)
        for thread in threads
        for path in [Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list")]
    }
    return len(siblings)


class Launcher:
    """The launcher of one environment's MPI library, and how jobs are started with it."""

    def __init__(self, mpiexec: Path, folder: Path) -> None:
        self.mpiexec = mpiexec
        self._folder = folder
        version = subprocess.run(
            [mpiexec, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=_environment(),
        )
        self.open_mpi = "Open MPI" in version.stdout

    @contextmanager
    def job(self, ranks: int, *words: object, stdin: int = subprocess.DEVNULL) -> Iterator[Job]:
        """Start ``python WORDS`` on several ranks (0: without a launcher); it ends with the block.

        A first word that is the name of a program of these tests stands for its path.
        """
        program = PROGRAMS / f"{words[0]}.py"
        python = [sys.executable, program if program.exists() else words[0], *words[1:]]
        crowded = self.open_mpi and ranks > _cores()
        launch = [self.mpiexec, "-n", ranks] if ranks else []
        launch += ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"] if crowded else []
        self._folder.mkdir(exist_ok=True)
        job = Job(list(map(str, [*launch, *python])), self._folder, stdin)
        try:
            yield job
        finally:
            job.kill()

    def run(self, ranks: int, *words: object, limit: float = LIMIT, **how: int) -> Finished:
        """Start ``python WORDS`` on several ranks and wait for the end."""
        with self.job(ranks, *words, **how) as job:
            return job.finish(limit)

    def hpccoll(self, ranks: int, *words: object, limit: float = LIMIT, **how: int) -> Finished:
        """Start ``hpccoll WORDS`` on several ranks and wait for the end."""
        return self.run(ranks, "-m", "hpccoll", *words, limit=limit, **how)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts any command as a job, which ends with the block."""

    @contextmanager
    def start(*words: object) -> Iterator[Job]:
        (tmp_path / "job").mkdir(exist_ok=True)
        job = Job(list(map(str, words)), tmp_path / "job", subprocess.DEVNULL)
        try:
            yield job
        finally:
            job.kill()

    return start


@pytest.fixture
def launcher(tmp_path):
    """Return the launcher beside this Python."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip(f"there is no mpiexec in {mpiexec.parent}, so no ranks can be started")
    return Launcher(mpiexec, tmp_path / "job")


@pytest.fixture
def other_launcher(launcher, tmp_path):
    """Return the launcher of another MPI library, in an environment beside this one."""
    for mpiexec in sorted(launcher.mpiexec.parents[2].glob("*/bin/mpiexec")):
        other = Launcher(mpiexec, tmp_path / "job")
        if other.open_mpi != launcher.open_mpi:
            return other
    pytest.skip("there is no environment with another MPI library beside this one")
