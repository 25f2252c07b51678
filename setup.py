"""The native engine: one source, compiled for both widths that MPI handles have.

It is optional: where there is no C compiler, hpccoll runs its python engine and says so.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"hpccoll.engines._native{width}",
            ["hpccoll/engines/_native.c", "hpccoll/engines/_kernels.c"],
            depends=["hpccoll/engines/_kernels.h"],
            define_macros=[("HANDLE_BYTES", str(width))],
            extra_compile_args=["-O3", "-ffp-contract=off"],
            optional=True,
        )
        for width in (4, 8)
    ]
)
