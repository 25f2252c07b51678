"""The command line: one file per command, loaded only when that command is called."""

import os
import signal
import sys
import traceback
from importlib import import_module
from time import sleep

import click

from hpccoll import __version__
from hpccoll.errors import HpccollError, UsageError
from hpccoll.launch import Launch, defer_end, detect

_COMMANDS = (
    *("bench", "launcher", "layernorm", "list", "merge", "numerics", "selftest", "show", "sweep"),
    "verify",
)


class _Commands(click.Group):
    """Commands by the name of their module, imported on use: every rank pays for every import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]  # list is a module here, once it is imported

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"hpccoll.cli.{name}").command
        return command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 100},
)
@click.version_option(__version__)
def cli() -> None:
    """Compare, prove and measure MPI collective algorithms.

    \b
    mpirun -n 4 hpccoll bench allreduce   which algorithm is fastest here, at every size
    mpirun -n 4 hpccoll layernorm         what the order of reduce, norm and broadcast changes
    hpccoll merge FILE...                 several launches' results in one table
    hpccoll sweep plan sweep.toml         many benchmarks: plan, run, status, resume, collect
    hpccoll list allreduce                the algorithms there are
    hpccoll show ring -p 6                what an algorithm does, round by round
    hpccoll show ring -p 8 -o ring.svg    the picture of it
    hpccoll verify -p 1:64                the proof that all of them are right
    hpccoll numerics allreduce            what the order of summation does to the result
    hpccoll launcher                      what starts ranks in a Slurm job, for batch scripts
    """  # noqa: D301 - click reads the backspace as "don't wrap"


def main() -> None:
    """Run the command line and exit: 0 fine, 1 a check failed, 2 usage.

    Only rank 0 speaks. An error that all ranks meet alike ends all of them in order; anything else
    may be one rank's alone, so it ends the job at once, with that rank's traceback.
    """
    launch = detect()
    if launch.launcher:
        # A rank that is blocked in MPI never gets to Python's handler; results are flushed by line.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        defer_end()
    if launch.rank:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    try:
        sys.exit(_invoke(launch))
    except SystemExit:
        raise
    except BaseException:
        _die(launch)


def _invoke(launch: Launch) -> int:
    """Run the command and return the exit code of this rank."""
    try:
        return int(cli.main(prog_name="hpccoll", standalone_mode=False) or 0)
    except click.ClickException as error:
        if launch.rank == 0:
            error.show()
        code = error.exit_code
    except click.exceptions.Abort:
        code = 130
    except HpccollError as error:
        if launch.rank == 0:
            click.echo(f"hpccoll: {error}", err=True)
        code = 2 if isinstance(error, UsageError) else 1
    if launch.rank:
        # If several ranks fail, the launcher may end rank 0 before its words are out.
        return 0
    if launch.launcher:
        # Open MPI's launcher prints a banner of its own unless the failing rank is the last to go.
        sleep(0.1)
    return code


def _die(launch: Launch) -> None:
    sys.stderr.write(f"hpccoll: [rank {launch.rank}] failed\n{traceback.format_exc()}")
    sys.stderr.flush()
    if launch.size != 1:
        # Imported only now, MPI starts: not every launcher ends ranks that wait in MPI_Init.
        from mpi4py import MPI

        if not MPI.Is_initialized():
            MPI.Init()
        if not MPI.Is_finalized():
            MPI.COMM_WORLD.Abort(1)
    os._exit(1)
