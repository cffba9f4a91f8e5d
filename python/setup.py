from setuptools import Extension, setup

# A library for ctypes, and no module of Python: assay_tap/native.py. Without a compiler there is none, and numpy has the
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
