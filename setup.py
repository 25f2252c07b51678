"""The native engine: one source, compiled for both widths that MPI handles have.

It is optional: where there is no C compiler, hpccoll runs its python engine and says so.
"""

from setuptools import Extension, setup

FOLDER = "hpccoll/engines/"


def extension(name: str, source: str, **macros: int) -> Extension:
    """Return an extension of the kernels and one more source."""
    return Extension(
        f"hpccoll.engines.{name}",
        [FOLDER + source, FOLDER + "_kernels.c"],
        depends=[FOLDER + "_kernels.h", FOLDER + "_reproducible.h"],
        define_macros=[(macro, str(value)) for macro, value in macros.items()],
        extra_compile_args=["-O3", "-ffp-contract=off"],
        optional=True,
    )


setup(
    ext_modules=[
        extension("_native4", "_native.c", HANDLE_BYTES=4),
        extension("_native8", "_native.c", HANDLE_BYTES=8),
        extension("_kernels", "_kernelsmodule.c"),
    ]
)
