"""Print the values that the library's algorithm variables have, by function: library_numbers.py."""

import json

from hpccoll.collectives import COLLECTIVES
from hpccoll.selection.selections import detect

if __name__ == "__main__":
    from mpi4py import MPI

    family = detect(MPI.get_vendor()[0])
    found = {}
    for function in {f for c in COLLECTIVES.values() for f in c.baseline}:
        if function == "MPI_Sendrecv":  # has but one way
            continue
        ((variable, _),) = [
            setting
            for setting in (*family.at_creation(function, 0, []), *family.in_calls(function, 0, []))
            if setting[0].name.lower().endswith("_algorithm")
        ]
        found[variable.name] = {"value": variable.read(), "numbers": family.numbers(function)}
    print(json.dumps(found))
