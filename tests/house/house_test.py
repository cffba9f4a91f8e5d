"""The checks of house.py on trees in which one thing is wrong: house_test.py

What would break: a check that passes whatever it is shown.
"""

import tempfile
import unittest
from pathlib import Path

import headers
import house
import names

FOLDERS = {
    "base": "",
    "engine": "with `tokenizer/`",
    "assay/log": "",
    "assay/cli": "",
    "scripts": "",
    "tests": "",
}


class HouseTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)

    def put(self, **contents):
        """Writes files, named with __ for / and _DOT_ for a dot; gives their paths."""
        paths = [Path(name.replace("__", "/").replace("_DOT_", ".")) for name in contents]
        for path, content in zip(paths, contents.values(), strict=True):
            (self.root / path.parent).mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(content)
        return paths

    def said(self, check, *arguments):
        return "\n".join(check(*arguments))

    def test_includes_against_the_direction_of_the_data(self):
        for wrong in ('"engine/a.h"', "<engine/a.h>", '"../engine/a.h"', '"../tests/a.h"'):
            files = self.put(base__a_DOT_h=f"#include {wrong}\n")
            self.assertIn("stands below base/", self.said(house.wrong_includes, self.root, files, FOLDERS), wrong)
        for right in ('"base/b.h"', "<vector>", '"b.h"', '"../base/b.h"'):
            files = self.put(engine__a_DOT_h=f"#include {right}\n", base__b_DOT_h="", engine__b_DOT_h="")
            self.assertEqual(self.said(house.wrong_includes, self.root, files, FOLDERS), "", right)

    def test_standard_headers_that_only_another_source_includes(self):
        used = {
            "span": "std::span<int> x;",
            "algorithm": "int x = std::ranges::max_element(y)[0];",
            "cmath": "bool x = std::isnan(y);",
            "tuple": "std::tie(a, b) = c;",
        }
        for header, code in used.items():
            files = self.put(base__a_DOT_cc=f'#include "base/a.h"\n{code}\n', base__a_DOT_h='#include "b.h"\n', base__b_DOT_h="")
            self.assertIn(f"base/a.cc uses std::", self.said(headers.missing, self.root, files), code)
            self.assertIn(f"<{header}>", self.said(headers.missing, self.root, files), code)
            self.put(base__b_DOT_h=f"#include <{header}>\n")
            self.assertEqual(self.said(headers.missing, self.root, files), "", code)
        files = self.put(base__c_DOT_cc='// std::span<int>\nconst char* x = "std::span";\nstd::span_like y;\n')
        self.assertEqual(self.said(headers.missing, self.root, files), "")

    def test_python_modules_that_import_each_other(self):
        right = {"a__x_DOT_py": "from .y import f\nimport os", "a__y_DOT_py": "", "b__y_DOT_py": "import x"}
        self.assertEqual(self.said(house.import_cycles, self.root, self.put(**right)), "")
        for back in ("from . import x", "from .x import f", "import x", "def f():\n    from .x import g"):
            said = self.said(house.import_cycles, self.root, self.put(**{**right, "a__y_DOT_py": back}))
            self.assertIn("a/x.py", said, back)

    def test_folders_that_the_map_does_not_have(self):
        files = [Path(name + "/a.cc") for name in (*FOLDERS, "engine/tokenizer", "tests/engine")]
        self.assertEqual(self.said(house.unmapped, files, FOLDERS), "")
        for name in ("new", "assay/new", "engine/new", "engine/tokenizer/new"):
            self.assertIn(f"{name}/ is not", self.said(house.unmapped, [*files, Path(name, "a.cc")], FOLDERS), name)
        self.assertIn("base/, which is not there", self.said(house.unmapped, files[1:], FOLDERS))

    def test_what_nobody_listed(self):
        scripts = {
            "scripts__setup_DOT_sh": "packages=(\n  cmake\n)\ntest_packages=(\n)\n",
            "python__pyproject_DOT_toml": '[build-system]\nrequires = ["setuptools>=61"]\n'
            '[project]\ndependencies = ["numpy"]\noptional-dependencies = { torch = ["torch>=2"] }\n',
            "a_DOT_sh": 'need() { false; }\n  need valgrind\nc=${CLANGXX:-clang++-16}\nneed "$c" "${c/++/}"\n'
            "need objdump binutils\necho apt-get install shellcheck\n",
            "requirements_DOT_txt": "Huggingface_Hub==1.0 \\\n    --hash=sha256:0\n# none\n",
        }
        names = ["cmake", "setuptools", "numpy", "torch", "valgrind", "clang-16", "binutils", "shellcheck"]
        names.append("huggingface-hub")
        rows = {name: f"| `{name}` | MIT |\n" for name in names}
        for missing in (None, *names):
            page = "".join(row for name, row in rows.items() if name != missing)
            page += f"| `{missing}` | |\n`{missing}` is free\n"
            files = self.put(**scripts, docs__dependencies_DOT_md=page)
            said = self.said(house.unlisted, self.root, files)
            self.assertEqual(len(said.splitlines()), 0 if missing is None else 1, said)
            self.assertIn(missing or "", said)

    def test_locked_requirements_of_another_version(self):
        self.put(golden__generate__requirements_DOT_txt="a==1\n", scripts__lint_requirements_DOT_in="b\nc==2\n")
        self.put(golden__generate__requirements_locked_DOT_txt="a==1 \\\n")
        self.put(scripts__lint_requirements_DOT_txt="b==1\nc==2 \\\n")
        self.assertEqual(self.said(house.unlocked, self.root), "")
        self.put(golden__generate__requirements_DOT_txt="a==2\nd==1\n", scripts__lint_requirements_DOT_txt="c==2\n")
        self.assertEqual(len(self.said(house.unlocked, self.root).splitlines()), 3)

    def test_what_goes_online(self):
        table = "## What goes online\n| what |\n|---|\n| `scripts/a.sh`, by `b.py` | `c.py` |\n\n## Else\n| `d.sh` |\n"
        offline = house.OFFLINE
        self.addCleanup(setattr, house, "OFFLINE", offline)
        house.OFFLINE = {"hint.sh": {"apt-get"}}
        good = {"SECURITY_DOT_md": table, "scripts__a_DOT_sh": "curl x", "b_DOT_py": "urllib"}
        good["hint_DOT_sh"] = "apt-get"
        self.assertEqual(self.said(house.strays_to_network, self.root, self.put(**good)), "")
        words = ["git pull", '"git", "clone"', "ssh host", "AutoModel.from_pretrained(x)", "wget", "curl", "apt-get"]
        words += ["asyncio.open_connection(", "socket.socket(", "additional_dependencies: [x]", "pip install x"]
        words.append('"pip", "download"')
        for word in words:
            for name in ("d_DOT_sh", "_DOT_pre_DOT_yaml", "w_DOT_yml", "tests__t_DOT_py", "c_DOT_py"):
                said = self.said(house.strays_to_network, self.root, self.put(**good, **{name: f"x = {word}\n"}))
                self.assertEqual(len(said.splitlines()), 1, f"{name}, {word}: {said}")
        for name, content in (("hint_DOT_sh", "apt-get; curl x"), ("b_DOT_py", "pass"), ("hint_DOT_sh", "pass")):
            said = self.said(house.strays_to_network, self.root, self.put(**{**good, name: content}))
            self.assertEqual(len(said.splitlines()), 1, f"{name}, {content}: {said}")

    def test_names_that_clash_where_sources_are_compiled_as_one(self):
        def said(first, second, cmake="", folder="engine"):
            sources = [f"namespace a {{\nnamespace {{\n\n{own}\n\n}}  // namespace\n}}\n" for own in (first, second)]
            paths = [f"{folder}__a_DOT_cc", f"{folder}__b_DOT_cc", "engine__CMakeLists_DOT_txt"]
            return self.said(names.clashes, self.root, self.put(**dict(zip(paths, [*sources, cmake], strict=True))))

        for first, second in (
            ("struct Rows {\n};", "class Rows final : Base {\n};"),
            ("constexpr int kMost = 1;", "constexpr char kMost[] = {1};"),
            ("using Value = int;", "using Value = long;"),
            ("int of(const A& a,\n       int* b) {\n}", "long of(const A& c, int* d) {\n}"),
            ("int of() {\n}", "template <class T>\nint of() {\n}"),
        ):
            self.assertIn("a.cc and b.cc both define", said(first, second), first)
            self.assertEqual(said(first, second, folder="tests"), "")
            alone = "set_source_files_properties(b.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)"
            self.assertEqual(said(first, second, alone), "")
        for first, second in (
            ("using Value = int;", "using Value =\n    int;"),
            ("int of(const A& a) {\n}", "int of(const B& a) {\n}"),
            ("struct A {\n  int of();\n};", "struct B {\n  int of();\n};"),
            ("int of(int a) {\n  return g(a);\n}", "int to(int a) {\n  return g(a);\n}"),
        ):
            self.assertEqual(said(first, second), "", first)

    def test_a_corpus_that_outgrows_the_repository(self):
        files = self.put(tests__fuzz__corpus__a__1="x" * house.LARGEST_CORPUS)
        self.assertEqual(self.said(house.large_corpus, self.root, files), "")
        files += self.put(tests__fuzz__corpus__b__1="x")
        self.assertIn("has 2000001 bytes", self.said(house.large_corpus, self.root, files))


if __name__ == "__main__":
    unittest.main()
