"""A real Slurm on this machine, in namespaces of its own: a controller and several nodes.

Every node has a host name and shared memory of its own, so MPI libraries take them for hosts.
Nothing of it is seen from outside, and all of it ends with the block, or with this process.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

SCRIPT = Path(__file__).with_name("cluster.sh")
TOOLS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
"""What is needed, and Debian's packages that have it."""
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
LIMIT = 60.0
"""Seconds that a command or a job may take; none comes near."""
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"}
CPUS = 4
LIBRARIES = {"mpich": "MPICH", "openmpi": "Open MPI"}
"""Environments that jobs run in, and the MPI libraries that they have."""
GPUS = ("/dev/null", "/dev/zero")
"""Devices that stand for every node's GPUs; nobody opens them."""

NAMESPACES = (
    *("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--propagation=private"),
    *("--fork", "--kill-child", "--mount-proc"),
)

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost=controller(127.0.0.1)
SlurmctldPort=6817
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/%n.pid
TmpFS={folder}/tmp/%n
TaskProlog={folder}/etc/prolog
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
EnforcePartLimits=ALL
MpiDefault=none
KillWait=3
MinJobAge=3600
PropagateResourceLimits=NONE
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
"""


def unable() -> str | None:
    """Return why there can be no cluster here, None where there can."""
    lacking = {package for tool, package in TOOLS.items() if not shutil.which(tool, path=PATH)}
    if not any(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so")):
        lacking.add("libpmix-dev")  # Slurm's plugin opens the library by this name
    if lacking:
        return f"Slurm isn't there (Debian: apt install {' '.join(sorted(lacking))})"
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root"
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return f"there can be no namespaces: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True)
class Process:
    """A process by its number outside of the cluster's namespaces, and its command line."""

    number: int
    words: list[str]


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up, whose clients are run in its namespaces.

    Attributes
    ----------
    folder
        What is in it ends with the cluster.
    holder
        The first process of its namespaces.
    """

    folder: Path
    holder: int
    nodes: tuple[str, ...]

    @property
    def small(self) -> Path:
        """Return a folder of 64 KiB, which every node sees."""
        return self.folder / "small"

    def run(
        self, *words: object, environment: Mapping[str, str] = os.environ, limit: float = LIMIT
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a user of the cluster does, on the host where one logs in."""
        enter = ["nsenter", f"--target={self.holder}", "--mount", "--uts", "--net", "--pid"]
        configuration = {"SLURM_CONF": str(self.folder / "etc" / "slurm.conf")}
        return subprocess.run(
            [*enter, "--wd=.", *map(str, words)],
            env={**environment, **configuration},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def slurm(self, *words: object) -> str:
        """Run a command of Slurm's, which must succeed, and return what it prints."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def states(self, job: str) -> dict[str, str]:
        """Return the state of a job, or of every element of an array, by its index."""
        lines = self.slurm("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%K %T").splitlines()
        return dict(line.split() for line in lines)

    def wait(self, job: str, limit: float = LIMIT) -> dict[str, str]:
        """Wait until a job, or all of an array, has ended, and return the states."""
        deadline = monotonic() + limit
        while not set((found := self.states(job)).values()) <= ENDED:
            if monotonic() > deadline:
                jobs = self.slurm("squeue", "-r", "-t", "all")
                raise AssertionError(f"job {job} hasn't ended after {limit} s\n{jobs}")
            sleep(0.2)
        return found

    def requeued(self, array: str) -> list[str]:
        """Return which elements of an array lost their node and wait for their new start.

        Empty as long as some that lost it haven't come to that.
        """
        lines = self.slurm("squeue", "-h", "-r", "-j", array, "-o", "%K %T %r").splitlines()
        found = [line.split() for line in lines]
        if any(state == "COMPLETING" for _, state, _ in found):
            return []
        return [index for index, _, reason in found if reason == "BeginTime"]

    def tell_to_end(self, job: str) -> None:
        """Do to a job's script what ``--signal=B:USR1@60`` does a minute before its end."""
        # It may have to try again, and fails if the job has ended meanwhile.
        self.run("scancel", "--batch", "--signal=USR1", job)

    def processes(self, **variables: object) -> list[Process]:
        """Return the cluster's processes that have these variables in their environment."""
        return processes(SLURM_CONF=self.folder / "etc" / "slurm.conf", **variables)


def processes(**variables: object) -> list[Process]:
    """Return the processes that have these variables in their environment."""
    wanted = {f"{name}={value}" for name, value in variables.items()}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, own = (_words(folder / name) for name in ("cmdline", "environ"))
        except OSError:  # gone
            continue
        if wanted <= set(own):
            found.append(Process(int(folder.name), words))
    return found


def _words(path: Path) -> list[str]:
    return path.read_bytes().decode(errors="replace").split("\0")


def until(found: Callable[[], T], limit: float = 40.0) -> T:
    """Wait until something is found, and return it."""
    deadline = monotonic() + limit
    while not (value := found()):
        assert monotonic() < deadline, "it never came"
        sleep(0.05)
    return value


@contextmanager
def cluster(nodes: Sequence[str] = ("n1", "n2")) -> Iterator[Cluster]:
    """Have a cluster for the time of the block."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    _write(folder, nodes)
    holder = subprocess.Popen(
        [*NAMESPACES, str(SCRIPT), str(folder), *nodes],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PATH": PATH},
        text=True,
    )
    try:
        if holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"Slurm doesn't start: {holder.stderr.read()}")
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        made = Cluster(folder, int(children[0]), tuple(nodes))
        _await_nodes(made)
        yield made
    finally:
        holder.communicate()


def _write(folder: Path, nodes: Sequence[str]) -> None:
    """Write everything that the daemons read."""
    folder.chmod(0o755)  # clients of any user walk to the socket
    for name in ("etc", "log", "run", "state", "spool", "tmp", "small"):
        (folder / name).mkdir()
    for node in nodes:
        (folder / "spool" / node).mkdir()
        (folder / "tmp" / node).mkdir()
    etc = folder / "etc"
    lines = [_CONFIGURATION.format(folder=folder)]
    lines += [
        f"NodeName={node} NodeAddr=127.0.0.1 Port={17000 + number} CPUs={CPUS} RealMemory=4000 "
        f"Gres=gpu:{len(GPUS)}\n"
        for number, node in enumerate(nodes)
    ]
    lines += ["PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"]
    (etc / "slurm.conf").write_text("".join(lines))
    # None are made, but slurmd wants to know which kind.
    (etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (etc / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in GPUS))
    names = ["localhost", "controller", *nodes]
    (etc / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in names))
    (etc / "key").write_bytes(secrets.token_bytes(128))
    (etc / "key").chmod(0o400)
    # As where scratch is local to nodes: launchers keep the files of a session there.
    (etc / "prolog").write_text(f'#!/bin/sh\necho "export TMPDIR={folder}/tmp/$SLURMD_NODENAME"\n')
    (etc / "prolog").chmod(0o755)


def _await_nodes(made: Cluster) -> None:
    deadline = monotonic() + LIMIT
    while made.run("sinfo", "-h", "-N", "-o", "%t").stdout.split() != ["idle"] * len(made.nodes):
        if monotonic() > deadline:
            logs = [log.read_text()[-2000:] for log in (made.folder / "log").iterdir()]
            raise RuntimeError("the nodes aren't idle:\n" + "\n".join(logs))
        sleep(0.02)
