"""imports.py PROGRAM: what the program links and imports has no network connection in it.

What would break: SECURITY.md, which promises that the program opens none. It is asked of builds without CUDA and
sanitizers, whose runtimes come with sockets of their own.
"""

import re
import subprocess
import sys

# Those of docs/dependencies.md and of the compiler.
LIBRARIES = {"libfmt", "libcrypto", "libpcre2-8", "libzip", "libboost_context"}
RUNTIME = {"libstdc++", "libm", "libgcc_s", "libc", "libpthread", "libgcov"}
NETWORK = {"socket", "connect", "bind", "listen", "accept", "accept4", "getaddrinfo", "gethostbyname", "res_query"}


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    program = sys.argv[1]
    linked = set(re.findall(r"\(NEEDED\).*\[(.*?)\.so", said("readelf", "--dynamic", program)))
    imported = {line.split()[-1].split("@")[0] for line in said("nm", "-D", "--undefined-only", program).splitlines()}
    problems = [f"links {name}, which docs/dependencies.md has not" for name in sorted(linked - LIBRARIES - RUNTIME)
                if not name.startswith("ld-")]  # fmt: skip
    problems += [f"imports {name}()" for name in sorted(imported & NETWORK)]
    if "write" not in imported:
        problems.append("does not even import write(): are these its imports?")
    print("\n".join(f"{program} {problem}" for problem in problems) or f"{len(linked)} libraries, {len(imported)} imports")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
