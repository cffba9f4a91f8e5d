"""Names that two sources of a folder define for themselves, and mean differently.

What would break: the preset `program`, which compiles up to 24 sources of a folder as one, where `release`, which the
tests are built with, compiles eight: a clash between the first and the ninth is seen by its users alone.
"""

import re
from collections import defaultdict

BUILT = re.compile(r"(assay|engine|model|base)/")  # by the preset
OWN = re.compile(r"\nnamespace \{\n(.*?)\n\}  // namespace\n", re.S)
ALONE = re.compile(r"set_source_files_properties\(([^)]*?)\s+PROPERTIES SKIP_UNITY_BUILD_INCLUSION")
COMMENT = re.compile(r"//[^\n]*")
# At the left margin. A function may share its name with one of other parameters.
DEFINITION = re.compile(
    r"^(?:(?:struct|class|enum(?: class)?) (?P<type>\w+)(?: final)?(?= [:{])"
    r"|using (?P<alias>\w+) = (?P<meant>[^;]*);"
    r"|(?:static |inline )*(?:constexpr|const)\b[^(={;]*?\b(?P<value>\w+)(?:\[[^]]*\])*(?= = |\{)"
    r"|(?:template <[^{}]*?>\n)?(?=[\w\[])[\w:<>,&*\[\] ]+?[ &*](?P<function>\w+)\((?P<parameters>[^{}=;]*)\)(?: const)?(?: -> [^{;]+)? \{)",
    re.M,
)
PARAMETER = re.compile(r",(?![^<(]*[>)])")
PARAMETER_NAME = re.compile(r"(?<=[\w>&*]) ?\b\w+$")


def definitions(source):
    """What a source defines in namespaces without a name: of each what it is called, and what it means."""
    for own in OWN.findall(COMMENT.sub(lambda comment: "// namespace" if "namespace" in comment[0] else "", source)):
        for found in DEFINITION.finditer(own):
            if found["alias"]:
                yield found["alias"], " ".join(found["meant"].split())
            elif found["function"]:
                types = [PARAMETER_NAME.sub("", " ".join(one.split())) for one in PARAMETER.split(found["parameters"])]
                yield f"{found['function']}({', '.join(types)})", None
            else:
                yield found["type"] or found["value"], None


def clashes(root, files):
    folders = defaultdict(lambda: defaultdict(list))
    for path in files:
        if path.suffix != ".cc" or not BUILT.match(f"{path}"):
            continue
        for name, meaning in set(definitions((root / path).read_text())):
            folders[path.parent][name].append((path.name, meaning))
    alone = "\n".join(
        text for path in files if path.name == "CMakeLists.txt" for text in ALONE.findall((root / path).read_text())
    )
    for folder, names in folders.items():
        for name, places in names.items():
            together = [place for place in places if place[0] not in alone]
            if len(together) > 1 and (None in {meaning for _, meaning in together} or len({m for _, m in together}) > 1):
                sources = " and ".join(sorted(source for source, _ in together))
                yield f"{folder}: {sources} both define {name}, which clash where they are compiled as one"
