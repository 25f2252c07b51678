"""`hpccoll selftest`."""

import click


@click.command("selftest")
def command() -> None:
    """Prove that the check of results finds faults, by putting faults into right results.

    Calls every collective with every element type and operator, damages the result of one rank in
    every way that a wrong implementation could, and checks it as `hpccoll bench` does. The table
    says how often each fault was found, and which faults a collective can't have. A fault that is
    missed, or a right result that is called wrong, gives exit code 1.

    Start it under mpirun or srun: mpirun -n 4 hpccoll selftest
    """
    from hpccoll import launch, selftest, world
    from hpccoll.errors import CheckError

    ranks = world.start(launch.detect())
    report = selftest.run(ranks)
    click.echo(str(report))
    if missed := ranks.comm.bcast(len(report.missed)):
        raise CheckError(f"the self-test failed: {missed} results were judged wrongly")
