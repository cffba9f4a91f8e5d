from setuptools import Extension, setup

# A library for ctypes, not a Python module: assay_tap/native.py. Without a compiler it is not built, and numpy has the
# same bytes, ten to a hundred times slower.
setup(
    ext_modules=[
        Extension(
            "assay_tap._native",
            ["native.cc"],
            include_dirs=[".."],
            extra_compile_args=["-std=c++20", "-O3", "-ffp-contract=off", "-fvisibility=hidden"],
            optional=True,
        )
    ]
)
