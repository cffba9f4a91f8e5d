# A log between safetensors, as convert.cc writes it, and Parquet, with pyarrow. assay convert runs
# this text and parquet_command.py with python -c.
#
# One row a record: checkpoint, token_idx, dtype, shape, n, values (float32), summary, sketch, team,
# source, file, line, ts, top, sequence, step, phase, rank, dims; null where the record has none. The log's header is the schema's metadata
# assay.header.
import sys

# python -c puts the current folder first, and a json.py there would run. Python before 3.11 has no
# -P against that, and -I would lose the user's own packages and PYTHONPATH.
sys.path = [folder for folder in sys.path if folder]

import json
import mmap
import re
import struct

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError:
    sys.exit("pyarrow is not installed; pip install pyarrow, or name a Python that has it in "
             "ASSAY_PYTHON")

SUMMARY = pa.struct([
    ("min", pa.float64()), ("max", pa.float64()), ("mean", pa.float64()), ("l2", pa.float64()),
    ("argmax", pa.int64()),
    ("top", pa.list_(pa.struct([("index", pa.int64()), ("value", pa.float64())]))),
    ("nonfinite", pa.int64()), ("nan", pa.int64())])
COLUMNS = [
    ("checkpoint", pa.string()), ("token_idx", pa.int64()), ("dtype", pa.string()),
    ("shape", pa.list_(pa.int64())), ("n", pa.int64()), ("values", pa.list_(pa.float32())),
    ("summary", SUMMARY), ("sketch", pa.list_(pa.float64())), ("team", pa.string()),
    ("source", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("ts", pa.string()),
    ("top", pa.list_(pa.struct([("id", pa.int64()), ("logprob", pa.float64())]))),
    ("sequence", pa.string()), ("step", pa.int64()), ("phase", pa.string()),
    ("rank", pa.struct([("tp", pa.int64()), ("pp", pa.int64()), ("ep", pa.int64())])),
    ("dims", pa.string())]
BATCH = 1 << 24  # values in a row group, so that memory stays bounded


def array_name(first, checkpoint, count):
    """As convert.cc names it."""
    plain = (first.setdefault(checkpoint, count) == count and
             checkpoint not in ("assay.records", "assay.counts", "__metadata__") and
             not re.search(r"#[0-9]+\Z", checkpoint))
    return checkpoint if plain else f"{checkpoint}#{count}"


def product(shape):
    result = 1
    for dim in shape:
        result *= dim
    return result


def summary_row(summary):
    if summary is None:
        return None
    row = {key: None if summary.get(key) is None else float(summary[key])
           for key in ("min", "max", "mean", "l2")}
    row.update((key, summary.get(key)) for key in ("argmax", "nonfinite", "nan"))
    if "top" in summary:
        row["top"] = [{"index": index, "value": float(value)} for index, value in summary["top"]]
    return row


def to_parquet(source, target, notes=None):
    """`notes`: further metadata of the file, texts by name."""
    with open(source, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length, = struct.unpack("<Q", data[:8])
        arrays = json.loads(data[8:8 + length])
        places = {name: 8 + length + info["data_offsets"][0] for name, info in arrays.items()}

        def whole(name):
            return data[places[name]:8 + length + arrays[name]["data_offsets"][1]]

        lines = whole("assay.records").decode().removesuffix("\n").split("\n")
        counts = struct.unpack(f"<{len(whole('assay.counts')) // 8}q", whole("assay.counts"))
        header = lines.pop(0) if len(lines) > len(counts) else None
        schema = pa.schema(COLUMNS, metadata={**({"assay.header": header} if header else {}),
                                              **(notes or {})})
        buffer = pa.py_buffer(data)
        first = {}
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            rows, parts, pending = [], [], 0

            def flush():
                offsets, total = [0], 0
                for part in parts:
                    total += len(part)
                    offsets.append(total)
                flat = pa.concat_arrays(parts) if parts else pa.array([], pa.float32())
                values = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
                columns = [values if name == "values" else pa.array([row.get(name) for row in rows],
                                                                    kind)
                           for name, kind in COLUMNS]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                rows.clear()
                parts.clear()

            for line, count in zip(lines, counts):
                record = json.loads(line)
                name = array_name(first, record["checkpoint"], count)
                parts.append(pa.Array.from_buffers(
                    pa.float32(), count, [None, buffer.slice(places[name], 4 * count)]))
                places[name] += 4 * count
                record.setdefault("n", product(record["shape"]))
                record["summary"] = summary_row(record.get("summary"))
                if record.get("sketch") is not None:
                    record["sketch"] = [float(x) for x in record["sketch"]]
                if record.get("top") is not None:
                    record["top"] = [{"id": token, "logprob": float(value)}
                                     for token, value in record["top"]]
                rows.append(record)
                pending += count
                if pending >= BATCH or len(rows) >= 65536:
                    flush()
                    pending = 0
            if rows:
                flush()
        del buffer, flush


def plain(value):
    """Floats that JSON has no number for, as the log has them."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
    return value


def summary_object(row):
    if row is None:
        return None
    summary = {key: plain(row[key]) for key in ("min", "max", "mean", "l2", "argmax", "nonfinite",
                                                "nan") if row.get(key) is not None}
    if row.get("top") is not None:
        summary["top"] = [[pair["index"], plain(pair["value"])] for pair in row["top"]]
    return summary


def record_line(row, count):
    record = {key: row[key] for key, _ in COLUMNS if row.get(key) is not None}
    record["values"] = []
    record.setdefault("dtype", "f32")
    record.setdefault("shape", [1, count])
    record.setdefault("n", product(record["shape"]))
    if "summary" in record:
        record["summary"] = summary_object(record["summary"])
    if "sketch" in record:
        record["sketch"] = [plain(x) for x in record["sketch"]]
    if "top" in record:
        record["top"] = [[pair["id"], plain(pair["logprob"])] for pair in record["top"]]
    return json.dumps(record, ensure_ascii=False)


def check_values(names, column, values, rows_before):
    """Ends the program where a log's values would be others: none, or infinite by the cast."""
    def refuse(row, what):
        sys.exit(f"row {rows_before + row + 1}, checkpoint {names[row].as_py()!r}: {what}; give "
                 "values that are 32-bit floats")

    if column.null_count:
        refuse(column.is_null().index(True).as_py(), "'values' is null")
    before, after = column.flatten(), values.flatten()

    def row_of(element):
        for row, count in enumerate(values.value_lengths().to_pylist()):
            element -= count
            if element < 0:
                return row

    if before.null_count:
        refuse(row_of(before.is_null().index(True).as_py()), "a value is null")
    lost = pc.invert(pc.is_finite(after))
    if pa.types.is_floating(before.type):
        lost = pc.and_(lost, pc.is_finite(before))
    at = lost.index(True).as_py()
    if at >= 0:
        refuse(row_of(at), f"the value {before[at].as_py()} is beyond a 32-bit float")


def to_safetensors(source, target):
    parquet = pq.ParquetFile(source)
    for name in ("checkpoint", "token_idx", "values"):
        if name not in parquet.schema_arrow.names:
            sys.exit(f"no column '{name}': this is not a log; give a file that assay convert wrote")
    names = [name for name, _ in COLUMNS if name in parquet.schema_arrow.names]
    header = (parquet.schema_arrow.metadata or {}).get(b"assay.header")
    lines = [header.decode()] if header else []
    first, rows, counts = {}, {}, []

    def batches():
        for batch in parquet.iter_batches(batch_size=1024, columns=names):
            values = batch.column(batch.schema.get_field_index("values"))
            yield batch, values.cast(pa.list_(pa.float32()))

    for batch, values in batches():
        check_values(batch.column(batch.schema.get_field_index("checkpoint")),
                     batch.column(batch.schema.get_field_index("values")), values, len(counts))
        records = batch.drop_columns(["values"]).to_pylist()
        for row, count in zip(records, values.value_lengths().to_pylist()):
            lines.append(record_line(row, count))
            counts.append(count)
            name = array_name(first, row["checkpoint"], count)
            rows[name] = [rows.get(name, [0])[0] + 1, count]
    text = ("\n".join(lines) + "\n").encode()
    tensors, offset, places = {}, 0, {}
    for name, kind, shape, size in (
            [(name, "F32", shape, 4 * shape[0] * shape[1]) for name, shape in rows.items()] +
            [("assay.counts", "I64", [len(counts)], 8 * len(counts)),
             ("assay.records", "U8", [len(text)], len(text))]):
        tensors[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        places[name] = offset
        offset += size
    head = json.dumps(tensors).encode()
    start = 8 + len(head)
    first = {}
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for batch, values in batches():
            flat = values.flatten()
            at = 0
            for checkpoint, count in zip(batch.column(batch.schema.get_field_index("checkpoint")),
                                         values.value_lengths().to_pylist()):
                name = array_name(first, checkpoint.as_py(), count)
                part = flat.slice(at, count)
                file.seek(start + places[name])
                if count:
                    file.write(memoryview(part.buffers()[1])[4 * part.offset:
                                                             4 * (part.offset + count)])
                places[name] += 4 * count
                at += count
        file.seek(start + places["assay.counts"])
        file.write(struct.pack(f"<{len(counts)}q", *counts) + text)
