# What another tool left (a pickle of PyTorch, or a folder) as one safetensors file that dump_file.cc
# reads: arrays "0", "1", ... and "assay.dump", JSON that says what each of them is.
# assay import runs this text with python -c: INPUT OUTPUT.
import sys

# As in parquet.py: the current folder is no place for modules.
sys.path = [folder for folder in sys.path if folder]

import json
import os
import re
import shutil
import struct
import zipfile
import zlib

try:
    import numpy as np
except ImportError:
    sys.exit("numpy is not installed; pip install numpy torch, or name a Python that has them in "
             "ASSAY_PYTHON")

NPY_TYPES = {"<f4": "F32", "<f8": "F64", "<i8": "I64", "|u1": "U8", "<f2": "F16", "<i4": "I32",
             "<i2": "I16", "|i1": "I8", "|b1": "BOOL"}
PICKLES = (".pt", ".pth")
# What NumPy raises for a file that is broken.
UNREADABLE = (ValueError, OSError, EOFError, OverflowError, MemoryError, zipfile.BadZipFile, zlib.error)
RANK = re.compile(r"(?:^|[/_.-])(?:rank|tp)[_-]?([0-9]+)(?=[/_.-]|$)", re.I)
# Names of files that a dump may have left, finished or not.
LEFT = re.compile(r"\.(npy|npz|pt|pth|safetensors)(\.|$)", re.I)
STEP = re.compile(r"(?:^|[/_.-])(step|iter|pass|token|pos)[_-]?([0-9]+)(?=[/_.-]|$)", re.I)


class Refused(Exception):
    """An error with the message for the user."""


looked_at = set()  # files of which it is known what they are, read or not


def load_pickle(path):
    looked_at.add(path)
    try:
        import torch
    except ImportError:
        raise Refused(f"{path}: PyTorch is not installed; pip install torch, or name a Python that "
                      "has it in ASSAY_PYTHON") from None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        unsafe = "weights_only" in str(error) or "Unsupported" in str(error)
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise Refused(f"{path}: " + ("it holds more than tensors, texts and numbers, and running a pickle is "
                                     "not safe; save the tensors alone" if unsafe else
                                     f"cannot be read by torch.load ({reason}); save it again")) from None


def tensors_in(value, name=""):
    """The tensors of nested dictionaries and lists, with their paths; of one tensor, with name ""."""
    if hasattr(value, "detach"):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from tensors_in(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from tensors_in(inner, f"{name}.{i}" if name and len(value) > 1 else name or str(i))


class Output:
    """The arrays, in one file as they come, and what each is."""

    def __init__(self, path):
        self.path = path
        self.data = open(path + ".data", "wb")
        self.header = {}
        self.tensors = []

    def add(self, name, value, path, **what):
        """`value`: a tensor of PyTorch or an array of NumPy; `path`: where it is from."""
        self.last = value
        if hasattr(value, "detach"):
            value = value.detach()
            kind = str(value.dtype).removeprefix("torch.")
            if kind == "bfloat16":
                import torch
                array, kind = value.contiguous().view(torch.int16).numpy(), "BF16"
            elif kind.startswith("float8"):
                array, kind = value.float().numpy(), "F32"
            elif value.is_quantized or value.is_complex() or value.layout.__str__() != "torch.strided":
                raise Refused(f"{path}: '{name}' is a tensor of type {kind}, which is not read; give real, "
                              "dense numbers, or leave it out with --skip")
            else:
                array, kind = value.numpy(), None
        else:
            array, kind = value, None
        kind = kind or NPY_TYPES.get(array.dtype.str, array.dtype.str)
        if kind == array.dtype.str:
            raise Refused(f"{path}: '{name}' has the type {kind}, which is not read; give real numbers, or "
                          "leave it out with --skip")
        array = np.ascontiguousarray(array).reshape(array.shape)
        start = self.data.tell()
        self.data.write(array.data if array.size else b"")
        self.header[str(len(self.tensors))] = {"dtype": kind, "shape": list(array.shape),
                                               "data_offsets": [start, self.data.tell()]}
        self.tensors.append({"name": name, **what})

    def finish(self, engine, warnings):
        text = json.dumps({"engine": engine, "tensors": self.tensors, "warnings": warnings}).encode()
        start = self.data.tell()
        self.data.write(text)
        self.data.close()
        self.header["assay.dump"] = {"dtype": "U8", "shape": [len(text)],
                                     "data_offsets": [start, start + len(text)]}
        head = json.dumps(self.header).encode()
        with open(self.path, "wb") as file, open(self.path + ".data", "rb") as data:
            file.write(struct.pack("<Q", len(head)) + head)
            shutil.copyfileobj(data, file)


def load_npy(path):
    """An array, mapped so that a false shape takes no memory, or the arrays of an .npz file."""
    looked_at.add(path)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        text = " ".join(str(error).split())
        raise Refused(f"{path}: " + ("an array of Python objects: a pickle, which is not read; save it as "
                                     "numbers" if "Python object" in text or "pickle" in text else
                                     f"cannot be read: {text}; save it again")) from None


def add_file(output, path, name, **what):
    """All tensors of one file."""
    if path.endswith(PICKLES):
        for key, value in tensors_in(load_pickle(path)):
            output.add(".".join(filter(None, (name, key))), value, path, **what)
        return
    value = load_npy(path)
    if isinstance(value, np.ndarray):
        output.add(name, value, path, **what)
        return
    for key in value.files:
        try:
            output.add(".".join(filter(None, (name, key))), value[key], path, **what)
        except UNREADABLE as error:
            raise Refused(f"{path}: '{key}': {' '.join(str(error).split())}") from None


def files_below(folder):
    """Regular files, and others by the name of a dump's file, by path from the folder, in an order that does not
    depend on the disk."""
    regular, others = [], []
    for place, folders, files in os.walk(folder):
        folders.sort()
        for path in (os.path.join(place, name) for name in files):
            if os.path.isfile(path):
                regular.append(os.path.relpath(path, folder))
            elif LEFT.search(os.path.basename(path)):
                others.append(os.path.relpath(path, folder))
    return sorted(regular), others


def read_sglang(folder, files, output):
    """KEY=VALUE___...pt of SGLang's dumper, {"value": tensor, "meta": {...}} each."""
    def tags(path):
        return dict(item.split("=", 1) for item in os.path.basename(path)[:-3].split("___") if "=" in item)

    unranked = 0
    for path in sorted((path for path in files if path.endswith(".pt") and "name" in tags(path)),
                       key=lambda path: int(tags(path).get("dump_index", 0))):
        tag = tags(path)
        loaded = load_pickle(os.path.join(folder, path))
        meta = loaded.get("meta", {}) if isinstance(loaded, dict) else {}
        value = loaded["value"] if isinstance(loaded, dict) and "value" in loaded else loaded
        name = tag["name"].removeprefix("non_intrusive__")
        if tag["name"] != name:
            module, end, rest = name.rpartition(".output") if ".output" in name else (name, "", "")
            if not end:
                continue  # what a module was given is what another one computed
            name = module + (rest if rest.strip(".0") else "")
        elif "layer_id" in tag and name not in SPECIAL:
            name = f"layer_{tag['layer_id']}.{name}"
        what = {"step": int(tag.get("step", 0))}
        parallel = next((meta[key] for key in meta if key.endswith("_parallel_info")), {})
        if "tp_rank" in parallel:
            what["rank"] = {"tp": parallel["tp_rank"], "pp": parallel.get("pp_rank", 0),
                            "ep": parallel.get("moe_ep_rank", 0)}
        elif int(tag.get("rank", 0)):
            what["rank"] = {"tp": int(tag["rank"]), "pp": 0, "ep": 0}
            unranked += 1
        if isinstance(meta.get("dims"), str):
            dims = meta["dims"].split("#")[0].split()
            partial = [axis for axis in re.findall(r"\[(\w+):partial\]", meta["dims"])]
            what["dims"] = " ".join([re.sub(r"\[\w+:partial\]", "", dim) for dim in dims] +
                                    [f"+[{axis}]" for axis in partial])
        for key, tensor in tensors_in(value):
            output.add(".".join(filter(None, (name, key))), tensor, path, **what)
    return [f"{unranked} tensors are of ranks whose kind the dump does not say: taken for tensor "
            "parallel"] if unranked else []


def read_passes(folder, files, output):
    """TP0_PP0_Rank0_pid1/Pass00000.pt of SGLang's --debug-tensor-dump-output-folder."""
    ranks = {re.search(r"TP(\d+)_PP(\d+)", path).groups() for path in files if PASS.search(path)}
    for path in files:
        found = PASS.search(path)
        if not found:
            continue
        what = {"step": int(found.group(3))}
        if len(ranks) > 1:
            what["rank"] = {"tp": int(found.group(1)), "pp": int(found.group(2)), "ep": 0}
        for name, tensor in tensors_in(load_pickle(os.path.join(folder, path))):
            output.add(name.replace(".forward_batch_info", ""), tensor, path, **what)
    return []


def read_msprobe(folder, files, output):
    """step0/rank0/dump.json of msprobe beside dump_tensor_data/, a tensor a file."""
    dumps = [path for path in files if os.path.basename(path) == "dump.json"]
    ranks = {match.group(1) for path in dumps if (match := RANK.search(os.path.dirname(path)))}
    count = 0
    for dump in dumps:
        place = os.path.dirname(dump)
        step, rank = re.search(r"step(\d+)", place), RANK.search(place)
        what = {"step": int(step.group(1)) if step else 0}
        if len(ranks) > 1 and rank:
            what["rank"] = {"tp": int(rank.group(1)), "pp": 0, "ep": 0}
        try:
            with open(os.path.join(folder, dump)) as file:
                calls = json.load(file).get("data")
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise Refused(f"{dump}: {' '.join(str(error).split())}; dump again") from None
        if not isinstance(calls, dict):
            raise Refused(f"{dump}: it has no object 'data'; give what msprobe's dump wrote")
        for name in names_in(calls):
            looked_at.add(os.path.join(folder, place, "dump_tensor_data", os.path.basename(name)))
        for call, entry in calls.items():
            found = re.fullmatch(r"(?:Module|Cell)\.(.+)\.(\w+)\.forward\.(\d+)", call)
            found = found or re.fullmatch(r"((?:Functional|Torch|Tensor|Mint|Primitive)\.\w+\.\d+)()\.forward()", call)
            if not found or not isinstance(entry, dict):
                continue
            module, kind, turn = found.groups()
            now = dict(what, call=int(turn or 0))
            given = (entry.get("input_args") or [None])[0]
            if "mbed" in kind and isinstance(given, dict) and "int" in str(given.get("dtype")):
                count += add_saved(output, folder, place, "input_ids", given, now)
            outputs = entry.get("output")
            # The first of several is what the module computes, as in SGLang's dump.
            parts = [(f"{module}.{i}", part) for i, part in enumerate(outputs if isinstance(outputs, list) else [outputs])
                     if isinstance(part, (dict, list))]
            for i, (name, part) in enumerate(parts):
                count += add_saved(output, folder, place, name if i else module, part, now)
    if not count:
        raise Refused("no tensor was saved, only statistics; set \"task\": \"tensor\" in msprobe's config.json")
    return []


def names_in(value):
    """The files that a part of msprobe's dump.json names, of inputs and gradients too, which are not read."""
    if isinstance(value, dict) and isinstance(value.get("data_name"), str):
        yield value["data_name"]
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from names_in(part)


def add_saved(output, folder, place, name, value, what):
    """The saved tensors in a part of msprobe's dump.json."""
    if isinstance(value, dict) and isinstance(value.get("data_name"), str):
        path = os.path.join(place, "dump_tensor_data", os.path.basename(value["data_name"]))
        before = len(output.tensors)
        add_file(output, os.path.join(folder, path), name, **what)
        count = len(output.tensors) - before
        if count != 1:
            raise Refused(f"{path}: {count} tensors, dump.json says one; dump again")
        added = output.header[str(before)]["shape"]
        if added != list(value.get("shape", added)):
            raise Refused(f"{path}: a tensor of shape {added}, dump.json says {value['shape']}; dump again")
        hold_to_statistics(path, output.last, value)
        return 1
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return sum(add_saved(output, folder, place, f"{name}.{key}", part, what) for key, part in inner)


def hold_to_statistics(path, tensor, stated):
    """A tensor whose extremes are not those that dump.json states is another run's; they are exact, and not in its type."""
    is_float = tensor.is_floating_point() if hasattr(tensor, "detach") else tensor.dtype.kind == "f"
    if not is_float or 0 in tensor.shape:
        return
    for key, found in (("Max", tensor.max()), ("Min", tensor.min())):
        value, found = stated.get(key), float(found)
        if type(value) in (int, float) and abs(value) < float("inf") and not abs(found - value) <= 1e-6 * abs(value):
            raise Refused(f"{path}: {key.lower()} {found:.7g}, dump.json says {value:.7g}: they are of two runs; dump again")


def read_logits(folder, files, output):
    """MODEL.bin and MODEL-tokens.bin of llama.cpp's examples/model-conversion: the logits after the last token."""
    if len(files) != 1:
        raise Refused(f"{len(files)} models have logits here; name one, as {os.path.join(folder, files[0])}")
    path = os.path.join(folder, files[0])
    tokens = path[:-4] + "-tokens.bin"
    if path.endswith("-embeddings.bin"):
        raise Refused(f"{path}: embeddings are normalised and may be a mean over all tokens, which the file does "
                      "not say; give the logits")
    if not os.path.isfile(tokens):
        raise Refused(f"{tokens} is missing, which says how many tokens there are; run the example again")
    for name, file, kind in (("logits", path, "<f4"), ("input_ids", tokens, "<i4")):
        looked_at.add(file)
        if os.path.getsize(file) % 4 or not os.path.getsize(file):
            raise Refused(f"{file}: {os.path.getsize(file)} bytes are no whole number of 32-bit values; run the "
                          "example again")
        array = np.fromfile(file, dtype=kind)
        output.add(name, array.reshape(1, -1) if name == "logits" else array, file)
    return []


def read_folder(folder, files, output):
    """One tensor a file (or several), named by checkpoint and, in folders or names, step, token and rank."""
    ranks = {match.group(1) for path in files if (match := RANK.search(os.path.splitext(path)[0]))}
    for path in files:
        stem = os.path.splitext(path)[0]
        what, name = {}, stem
        if match := STEP.search(stem):
            what["token" if match.group(1).lower() in ("token", "pos") else "step"] = int(match.group(2))
            name = name.replace(match.group(0), "/", 1)
        if match := RANK.search(stem):
            name = name.replace(match.group(0), "/", 1)
            if len(ranks) > 1:
                what["rank"] = {"tp": int(match.group(1)), "pp": 0, "ep": 0}
        name = re.sub(r"/+", "/", name).strip("/_.-").replace("/", ".")
        add_file(output, os.path.join(folder, path), name, **what)
    return []


PASS = re.compile(r"TP(\d+)_PP(\d+)_Rank\d+_pid\d+/Pass(\d+)\.pt$")
SPECIAL = {"input_ids", "positions", "seq_lens", "req_pool_indices", "position_ids"}


def read(source, output):
    if not os.path.isdir(source):
        if source.endswith(".bin"):
            return "llama.cpp", read_logits(os.path.dirname(source), [os.path.basename(source)], output)
        add_file(output, source, "")
        return "", []
    files, others = files_below(source)
    dumped = [path for path in files if path.endswith(PICKLES + (".npy", ".npz"))]
    logits = [path for path in files if path.endswith(".bin") and not path.endswith("-tokens.bin") and
              path[:-4] + "-tokens.bin" in files]
    engine, warnings = read_kind(source, files, dumped, logits, output)
    unread = [path for path in files if (LEFT.search(os.path.basename(path)) or path in logits) and
              os.path.join(source, path) not in looked_at]
    unread = sorted(unread + others)
    if unread:
        warnings.append(f"{len(unread)} file{'s are' if unread[1:] else ' is'} not read, the first '{unread[0]}': a dump "
                        f"of {engine or 'tensors'} has no file of that name; see docs/dumps.md")
    return engine, warnings


def read_kind(source, files, dumped, logits, output):
    """By the kind of the dump, its engine and warnings."""
    if any(os.path.basename(path) == "dump.json" for path in files):
        return "msprobe", read_msprobe(source, files, output)
    if any("___name=" in path for path in dumped):
        return "sglang", read_sglang(source, dumped, output)
    if any(PASS.search(path) for path in dumped):
        return "sglang", read_passes(source, dumped, output)
    if logits:
        return "llama.cpp", read_logits(source, logits, output)
    if dumped:
        return "", read_folder(source, dumped, output)
    raise Refused("the folder holds no dump: no .npy, .npz, .pt, .pth, dump.json or MODEL-tokens.bin; see "
                  "docs/dumps.md")


def main():
    source, target = sys.argv[1:]
    output = Output(target)
    try:
        output.finish(*read(source, output))
    except Refused as refused:
        sys.exit(str(refused))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        sys.exit(f"{type(error).__name__}: " + " ".join(str(error).split()))


main()
