"""What the order of summation does to the result: exact bits, errors and bounds, without MPI."""
