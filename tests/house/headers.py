"""Names of the standard library that a source uses without a header that has them.

What would break: the presets that compile each source by itself (dev, asan, tsan, fuzz, cuda), where `release` and
`program`, which are tested, compile many as one, and each has what those before it included.
"""

import os
import re
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
NO_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
USE = re.compile(r"\bstd::(?:ranges::)?(\w+)")
# Of each header names that no other has.
NAMES = {
    "algorithm": "all_of any_of clamp copy copy_n count count_if equal fill find find_if lower_bound max max_element min "
    "min_element none_of nth_element partial_sort remove_if replace_if reverse rotate sort stable_sort transform unique "
    "upper_bound",
    "array": "array",
    "atomic": "atomic",
    "bit": "bit_cast bit_ceil bit_width countl_zero countr_zero endian has_single_bit popcount",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "ceil cos exp floor fma frexp isfinite isinf isnan ldexp log lround nearbyint pow sin sqrt tanh",
    "condition_variable": "condition_variable",
    "deque": "deque",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "function greater multiplies not_fn plus",
    "iostream": "cerr cin cout",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "make_shared make_unique shared_ptr unique_ptr",
    "mutex": "call_once lock_guard mutex once_flag scoped_lock unique_lock",
    "numbers": "numbers",
    "numeric": "accumulate gcd inner_product iota partial_sum reduce",
    "optional": "nullopt optional",
    "random": "mt19937 mt19937_64",
    "regex": "regex",
    "set": "multiset set",
    "span": "as_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "thread": "jthread this_thread thread",
    "tuple": "forward_as_tuple make_tuple tie tuple",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "variant": "get_if holds_alternative variant visit",
    "vector": "vector",
}
HEADERS = {name: header for header, names in NAMES.items() for name in names.split()}


def missing(root, files):
    sources = {path for path in files if path.suffix in {".h", ".cc", ".cu"}}
    texts = {path: (root / path).read_text() for path in sources}
    included = {path: INCLUDE.findall(text) for path, text in texts.items()}
    for path in sorted(sources):
        headers, seen, left = set(), set(), [path]
        while left:
            if (source := left.pop()) in seen:
                continue
            seen.add(source)
            headers.update(included[source])
            places = [Path(os.path.normpath(place)) for name in included[source] for place in (name, source.parent / name)]
            left += [place for place in places if place in sources]
        for name in sorted(set(USE.findall(NO_CODE.sub("", texts[path])))):
            if (header := HEADERS.get(name)) and header not in headers:
                yield f"{path} uses std::{name} and includes <{header}> by no header: add it"
