"""`hpccoll launcher`."""

import click

from hpccoll.launcher import AUTO, CHOICES

_EPILOG = """\b
The words stand on lines of their own, for batch scripts:
  launcher=$(hpccoll launcher)
  mapfile -t launcher <<<"$launcher"
  "${launcher[@]}" hpccoll bench allreduce

MPICH and Intel MPI find srun's ranks through --mpi=pmi2, Open MPI through --mpi=pmix; where srun
doesn't have it, the library's own mpirun does it inside the job. Some installations list pmix, but
lack the PMIx library: then name mpirun.
"""


@click.command("launcher", epilog=_EPILOG)
@click.option(
    "--mpi",
    "choice",
    type=click.Choice(CHOICES),
    default=AUTO,
    show_default=True,
    help="How ranks find each other; auto: as the library that mpi4py loads here needs it.",
)
def command(choice: str) -> None:
    """Print what starts the ranks of a Slurm job for this Python's MPI library."""
    from hpccoll.launcher import launcher

    click.echo("\n".join(launcher(choice)))
