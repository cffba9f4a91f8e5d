"""Writes kernels/codebooks.h: the tables of the types that store a group of weights as its place in a table.

They are part of the format, and come from the `gguf` package. Run as `python -m generate.codebooks` from golden/.
"""

from importlib import metadata
from pathlib import Path

import gguf.quants
import numpy as np

OUT = Path(__file__).resolve().parents[2] / "kernels" / "codebooks.h"
PER_LINE = 11
HEADER = """#pragma once

#include <cstdint>

#include "kernels/half.h"

// Made by golden/generate/codebooks.py from the `gguf` package {version}. An entry is eight numbers
// of two bits, or of those of iq3_* four of four bits, the first in the low bits: which magnitudes
// of the type each group has (coded_types.h).
namespace assay::coded {{
"""
FUNCTION = """
ASSAY_ALWAYS_INLINE uint32_t {name}(uint32_t index) {{
  static constexpr uint16_t kEntries[] = {{
{entries}}};
  return kEntries[index];
}}
"""


def entries(kind):
    return np.frombuffer(bytes.fromhex(kind.grid_hex.decode()), "<u2")


def function(name, kind):
    numbers = [f"0x{value:04X}" for value in entries(kind)]
    lines = [numbers[at : at + PER_LINE] for at in range(0, len(numbers), PER_LINE)]
    return FUNCTION.format(name=name, entries=",\n".join("      " + ", ".join(line) for line in lines))


def main():
    quants = gguf.quants
    books = {
        "iq2_xxs_entry": quants.IQ2_XXS,
        "iq2_xs_entry": quants.IQ2_XS,
        "iq2_s_entry": quants.IQ2_S,
        "iq3_xxs_entry": quants.IQ3_XXS,
        "iq3_s_entry": quants.IQ3_S,
        "iq1_entry": quants.IQ1_S,
    }
    text = HEADER.format(version=metadata.version("gguf"))
    for name, kind in books.items():
        text += function(name, kind)
    OUT.write_text(text + "\n}  // namespace assay::coded\n")


if __name__ == "__main__":
    main()
