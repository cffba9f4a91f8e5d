"""What unpatched llama.cpp computes, as a log.

    python -m generate.llamacpp MODEL.gguf --prompt "The capital of France is" -n 8 --log llamacpp.jsonl

logs what llama.cpp computes for the prompt and the tokens that it chooses. Run from golden/. With --own-names the log
has all nodes of the graph that have a row for each token, by llama.cpp's names: `assay compare --map llama.cpp` reads it.
"""

import sys

from assay_tap import CheckpointSet

from . import command_line
from .llamacpp_engine import LlamaCpp


def main():
    parser = command_line.parser("llamacpp", "Logs what unpatched llama.cpp computes, node by node of its graph.")
    parser.add_argument("--context", metavar="N", type=int, help="context size (default: what the run needs)")
    parser.add_argument("--gpu-layers", metavar="N", type=int, default=0, help="layers on a GPU, where built so")
    parser.add_argument("--own-names", action="store_true", help="all nodes, by llama.cpp's names; not with --checkpoints")
    options = parser.parse_args()

    def record(file, tokens, log, header):
        context = options.context or len(tokens) + options.n
        wanted = CheckpointSet(options.checkpoints)
        write = log.write_rows
        backend = "gpu" if options.gpu_layers else "cpu"
        with LlamaCpp(file.path, context, options.gpu_layers) as engine:
            log.header(**header, engine="llama.cpp", backend=backend, math="as stored")
            chosen = engine.greedy(tokens, options.n, file.padding_ids)
            if options.own_names:
                engine.observe_nodes(tokens + chosen[:-1], write)
            else:
                engine.observe_into(tokens + chosen[:-1], lambda name, *rest: name in wanted and write(name, *rest))
        if options.n:
            print(",".join(map(str, chosen)))

    return command_line.run(options, record)


if __name__ == "__main__":
    sys.exit(main())
