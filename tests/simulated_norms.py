"""Orders of Reduce, norm and Broadcast as the words say, computed in one process."""

from functools import reduce
from itertools import pairwise

import numpy as np

from hpccoll.datatypes import OPERATORS, divide
from hpccoll.layernorm.norms import add_to, normalize

ADD = OPERATORS["sum"].ufunc


def chain(parts):
    """Sum in the order of the ranks, rounded to the storage type in every step."""
    return reduce(ADD, parts)


def tree(parts):
    """Sum pairs, pairs of pairs and so on, rounded to the storage type in every step."""
    while len(parts) > 1:
        parts = [reduce(ADD, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def wide(parts):
    """Sum in float32 and round once."""
    return reduce(np.add, [part.astype(np.float32) for part in parts]).astype(parts[0].dtype)


DEPTH = {chain: lambda p: p - 1, tree: lambda p: (p - 1).bit_length(), wide: lambda p: p - 1}


def parts(inputs):
    return [inputs.partial(rank) for rank in range(inputs.size)]


def beta(inputs, norm):
    return inputs.beta if norm.centred else None


def with_beta(inputs, norm, rows):
    return normalize(rows, inputs.gamma, beta(inputs, norm), norm)[0]


def summed(inputs, add=chain):
    """Reduce, then add bias and residual: the rows that the norm is of."""
    return add_to(add(parts(inputs)), inputs.additions)


def right(inputs, norm, add=chain):
    """Reduce, then the norm: every correct order."""
    return with_beta(inputs, norm, summed(inputs, add))


def _local(inputs):
    """Return the parts, the root's with bias and residual: what a norm before the reduce is of."""
    first, *others = parts(inputs)
    return [add_to(first, inputs.additions), *others]


def norms_then_sum(inputs, norm, add=chain):
    return add([with_beta(inputs, norm, part) for part in _local(inputs)])


def norms_then_mean(inputs, norm, add=chain):
    result = norms_then_sum(inputs, norm, add)
    divide(result, inputs.size)
    return result


def roots_norm_on_all(inputs, norm, add=chain):
    return add([with_beta(inputs, norm, _local(inputs)[0])] * inputs.size)


def sum_of_the_roots(inputs, norm, add=chain):
    copies = add([inputs.partial(0)] * inputs.size)
    return with_beta(inputs, norm, add_to(copies, inputs.additions))


def shards_alone(inputs, norm, add=chain):
    total = summed(inputs, add)
    bounds = [inputs.hidden * shard // inputs.size for shard in range(inputs.size + 1)]
    shards = []
    for start, stop in pairwise(bounds):
        columns = slice(start, stop)
        shift = inputs.beta[columns] if norm.centred else None
        shards.append(normalize(total[:, columns], inputs.gamma[columns], shift, norm)[0])
    return np.concatenate(shards, axis=1)


def added_on_every_rank(wrong, other):
    def simulate(inputs, norm, add=chain):
        terms = {"bias": inputs.bias_vector, "residual": inputs.residual_rows}
        everywhere, once = ([terms[name]] * (terms[name] is not None) for name in (wrong, other))
        return with_beta(
            inputs, norm, add_to(add([add_to(x, everywhere) for x in parts(inputs)]), once)
        )

    return simulate


WRONG = {
    "layernorm-reduce-bcast": norms_then_sum,
    "layernorm-mean": norms_then_mean,
    "bcast-layernorm-reduce": roots_norm_on_all,
    "bcast-reduce-layernorm": sum_of_the_roots,
    "layernorm-bcast-reduce": roots_norm_on_all,
    "hidden-shards-alone": shards_alone,
    "bias-on-every-rank": added_on_every_rank("bias", "residual"),
    "residual-on-every-rank": added_on_every_rank("residual", "bias"),
}
