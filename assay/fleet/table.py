# Results: a file of rows for each task that has ended, and one table of all pairs.

COLUMN_TYPES = {
    "night": "DATE", "commit": "VARCHAR", "added": "VARCHAR", "engine": "VARCHAR", "model": "VARCHAR", "type": "VARCHAR",
    "prompt": "VARCHAR", "tokens": "VARCHAR", "run": "VARCHAR", "reference": "VARCHAR", "reference_engine": "VARCHAR",
    "bytes": "BIGINT", "verdict": "VARCHAR", "pass": "BOOLEAN", "compared": "BIGINT", "failed": "BIGINT", "whole": "BIGINT",
    "partial": "BIGINT", "excused": "BIGINT", "unproven": "BIGINT", "argmax_agree": "BIGINT", "argmax_total": "BIGINT",
    "checkpoint": "VARCHAR", "layer": "BIGINT", "op": "VARCHAR", "token_idx": "BIGINT", "metric": "VARCHAR",
    "value": "DOUBLE", "tolerance": "DOUBLE", "median_rel_l2": "DOUBLE", "worst_rel_l2": "DOUBLE",
    "worst_of_tolerance": "DOUBLE", "last_rel_l2": "DOUBLE", "growth_per_layer": "DOUBLE", "by_values": "BIGINT",
    "warnings": "VARCHAR[]", "problem": "VARCHAR",
}  # fmt: skip
ORDER = "night, added, engine, model, type, prompt, run, reference"


class Results:
    """DATASET/results/JUDGE/: rows judged by one program under one policy. A file appears whole or not at all.

    Its name is a hash of its text, so that what was changed since does not count. Each row names what run.json said of
    its two runs, so that a run that says something else is judged again.
    """

    def __init__(self, folder, job, runs):
        # What stands for each run.json.
        self.stated = {run: hashlib.sha256(json.dumps({**facts, "added": ""}, sort_keys=True).encode()).hexdigest()[:16]
                       for run, facts in runs.items()}  # fmt: skip
        digest = hashlib.sha256()
        with open(job["program"], "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
        digest.update(json.dumps([job["policy"], job["floor"], job["fast_floors"], job["maps"], MOST_VALUES]).encode())
        self.folder = os.path.join(folder, "judge=" + digest.hexdigest()[:16])
        os.makedirs(self.folder, exist_ok=True)

    def stated_of(self, row):
        return [self.stated.get(row[side], "") for side in ("ref", "got")]

    def rows(self):
        """The rows that were written before, by (reference, run), of runs that are what they were then."""
        rows = {}
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".jsonl"):
                continue
            path = os.path.join(self.folder, name)
            try:
                with open(path) as file:
                    text = file.read()
                if name != name_of(text):
                    raise ValueError("is not what was kept there")
                for line in text.splitlines():
                    row = json.loads(line)
                    if row.pop("stated", None) == self.stated_of(row):
                        rows[row["ref"], row["got"]] = row
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise Problem(f"{path}: {one_line(error)}; remove it, and its pairs are judged again") from None
        return rows

    def write(self, rows):
        """Keeps what was found out; a pair that could not be compared is tried again by the next comparison."""
        text = "".join(json.dumps({**row, "stated": self.stated_of(row)}) + "\n"
                       for row in rows if "problem" not in row)  # fmt: skip
        if text:
            write_whole(os.path.join(self.folder, name_of(text)), text)


def name_of(text):
    """Of a file of rows."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] + ".jsonl"


def write_whole(path, text):
    handle, part = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def table_rows(runs, pairs, alone, rows):
    """One row a run that is no reference."""
    for ref, got in pairs:
        row = {key: value for key, value in rows[ref, got].items() if key not in ("ref", "got")}
        yield {**facts_of(runs[got]), "reference": ref, "reference_engine": facts_of(runs[ref])["engine"], **row}
    for run, problem in alone.items():
        yield {**facts_of(runs[run]), "verdict": "no_reference", "pass": False, "problem": problem}


def write_table(path, rows):
    """Writes Parquet: the same bytes for the same rows, in whatever order they were found out."""
    with tempfile.TemporaryDirectory(prefix="assay-fleet-") as folder:
        listing, part = os.path.join(folder, "rows.jsonl"), os.path.join(os.path.dirname(path) or ".", ".new-" + os.path.basename(path))
        with open(listing, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        columns = ", ".join(f"{json.dumps(name)}: '{kind}'" for name, kind in COLUMN_TYPES.items())
        made = part.replace("'", "''")
        connected(threads=1).execute(
            f"COPY (SELECT * FROM read_json({quoted(listing)}, format = 'newline_delimited', columns = {{{columns}}}) ORDER BY {ORDER}) "
            f"TO '{made}' (FORMAT parquet, COMPRESSION zstd)")  # fmt: skip
        os.replace(part, path)
