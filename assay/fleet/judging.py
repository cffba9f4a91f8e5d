# The task: judges some pairs of a dataset with the program, by sketches first.

MOST_VALUES = 1 << 24  # of one log that are read where sketches differ
MOST_PROBLEM = 300  # characters
SKETCH = 64  # numbers


def line_query(columns, values):
    """SQL for the lines of a log, as the program reads them, of the rows of a log.parquet."""
    members = []
    for name, _ in COLUMNS:
        if name == "values":
            members.append(f'"values" := {"values" if values else "[]::FLOAT[]"}')
        elif name not in columns or name == "ts":
            continue
        elif name == "summary":
            members.append(
                "summary := CASE WHEN summary IS NULL THEN NULL ELSE struct_pack("
                + ", ".join(f'"{key}" := summary."{key}"' for key in ("min", "max", "mean", "l2", "argmax", "nonfinite", "nan"))
                + ", top := list_transform(summary.top, lambda x: json_array(x.index, x.value))) END")
        elif name == "top":
            members.append("top := list_transform(top, lambda x: json_array(x.id, x.logprob))")
        else:
            members.append(f'"{name}" := "{name}"')
    return f"to_json(struct_pack({', '.join(members)}))::VARCHAR || chr(10) AS line"


class Spool:
    """Logs of a dataset as files that the program reads, ID.jsonl in a folder of this machine.

    A sound log whose records all have sketch and summary is first written without its values where these are large.
    Then the sketches stand for them, where they are not to be held to the head of another log's values.
    """

    def __init__(self, dataset, runs, folder):
        self.dataset, self.runs, self.folder = dataset, runs, folder
        self.connection, self.name = dataset.duckdb()
        self.problems = {}
        # Runs that run.json and log.parquet call sound, of known bytes, and whose records all have sketch and summary.
        self.sketched = set()
        self.in_part = set()  # runs of which some record has a part of its values

    def has_heads(self, run):
        """Whether its values are no larger than its sketches would be."""
        return self.runs[run]["values"] <= SKETCH * self.runs[run]["records"]

    def needs_no_values(self, pair):
        whole = not any(run in self.in_part for run in pair)
        return set(pair) <= self.sketched and (whole or all(map(self.has_heads, pair)))

    def check(self, runs):
        """Finds those whose log.parquet was changed since it was added."""
        for run in runs:
            try:
                self.dataset.check_log(self.runs[run])
            except Problem as problem:
                self.problems[run] = str(problem)

    def write(self, runs, folder, values):
        """Writes these logs with or without values."""
        runs = [run for run in runs if run not in self.problems]
        for group in ([run for run in runs if values or self.has_heads(run)],
                      [run for run in runs if not values and not self.has_heads(run)]):  # fmt: skip
            if group:
                self.write_group(group, folder, values or self.has_heads(group[0]))

    def write_group(self, runs, folder, values):
        try:
            self.write_all(runs, folder, values)
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            if len(runs) > 1:
                for run in runs:  # the one that cannot be read must not keep the others from being judged
                    self.write_group([run], folder, values)
                return
            text = self.dataset.without_place(str(error).split("\n")[0])
            self.problems[runs[0]] = f"run={runs[0]}/log.parquet: {text}"[:MOST_PROBLEM]

    def write_all(self, runs, folder, values):
        files = [self.name(f"run={run}", "log.parquet") for run in runs]
        columns = {row[0] for row in self.connection.execute("SELECT name FROM parquet_schema($1)", [literal(files[0])]).fetchall()}
        for run in runs:
            with open(os.path.join(folder, f"{run}.jsonl"), "w") as file:
                file.write(self.runs[run]["header_line"] + "\n")
        query = (f"SELECT filename, sketch IS NOT NULL AND summary IS NOT NULL AS sketched, {line_query(columns, values)}, "
                 'len("values") BETWEEN 1 AND n - 1 AS in_part FROM read_parquet($files, filename = true)')  # fmt: skip
        place = {file: run for file, run in zip(files, runs)}
        bare, records = set(), dict.fromkeys(runs, 0)
        for batch in self.connection.sql(query, params={"files": list(map(literal, files))}).to_arrow_reader(1 << 14):
            ends = pc.run_end_encode(batch.column(0))
            begin = 0
            for file, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist()):
                run = place[file]
                records[run] += end - begin
                with open(os.path.join(folder, f"{run}.jsonl"), "ab") as out:
                    out.write(text_of(batch.column(2).slice(begin, end - begin)))
                if pc.min(batch.column(1).slice(begin, end - begin)).as_py() is not True:
                    bare.add(run)
                if pc.max(batch.column(3).slice(begin, end - begin)).as_py() is not False:
                    self.in_part.add(run)
                begin = end
        sound, header = self.noted(SOUND, files), self.noted(HEADER, files)
        for file, run in place.items():
            stated = self.runs[run]["records"]
            if records[run] != stated:
                self.problems[run] = f"run={run}/log.parquet: has {records[run]} records, and run.json says {stated}; add the run again"
            if file in header and json.loads(header[file]) != json.loads(self.runs[run]["header_line"]):
                self.problems[run] = f"run={run}/run.json: has another header than log.parquet; add the run again"
            if self.runs[run]["sound"] and sound.get(file) == "false":
                self.problems[run] = f"run={run}/run.json: says that the log is sound, and log.parquet that it is not; add the run again"
        self.sketched.update(run for file, run in place.items()
                             if run not in bare and self.runs[run]["sound"] and self.runs[run]["sha256"]
                             and sound.get(file) == "true")  # fmt: skip

    def noted(self, name, files):
        """What each log.parquet says in its metadata under a name; older ones say nothing."""
        return dict(self.connection.execute(
            "SELECT file_name, decode(value) FROM parquet_kv_metadata($1) WHERE decode(key) = $2",
            [list(map(literal, files)), name]).fetchall())

    def add_values(self, run, records, folder):
        """Copies the log to another folder, with the values of the first of these records. Returns of how many."""
        rows = self.rows_of(run, records)
        lines = self.lines_with_values(run, rows)
        with open(os.path.join(self.folder, f"{run}.jsonl"), "rb") as source, open(os.path.join(folder, f"{run}.jsonl"), "wb") as out:
            out.write(source.readline())
            for row, line in enumerate(source):
                out.write(lines.get(row, line))
        return len(lines)

    def rows_of(self, run, records):
        """The rows of the first of the records that together have no more than MOST_VALUES values."""
        place = {}
        for order, record in enumerate(records):
            place.setdefault(tuple(record), order)
        wanted = pa.table({"checkpoint": [record[0] for record in place], "token_idx": [record[1] for record in place],
                           "place": list(place.values())}, WANTED)  # fmt: skip
        file = self.name(f"run={run}", "log.parquet")
        self.connection.register("wanted", wanted)
        found = self.connection.execute(
            "SELECT file_row_number, n FROM read_parquet($1, file_row_number = true) JOIN wanted USING (checkpoint, token_idx) "
            "ORDER BY place, file_row_number", [literal(file)]).fetchall()
        rows, total = [], 0
        for row, n in found:
            total += n
            if total > MOST_VALUES and rows:
                break
            rows.append(row)
        return sorted(rows)

    def lines_with_values(self, run, rows):
        """The lines of these rows; reads only the row groups that hold them."""
        lines = {}
        with self.dataset.open(f"run={run}", "log.parquet") as file:
            parquet = pq.ParquetFile(file)
            query = f"SELECT {line_query(set(parquet.schema_arrow.names), True)} FROM part"
            begin, left = 0, rows
            for group in range(parquet.num_row_groups):
                end = begin + parquet.metadata.row_group(group).num_rows
                here = [row for row in left if row < end]
                if here:
                    left = left[len(here):]
                    part = parquet.read_row_group(group).take([row - begin for row in here])
                    self.connection.register("part", part)
                    found = self.connection.sql(query).fetchall()
                    lines.update((row, line.encode()) for row, (line,) in zip(here, found))
                begin = end
        return lines


WANTED = pa.schema([("checkpoint", pa.string()), ("token_idx", pa.int64()), ("place", pa.int64())])


def text_of(lines):
    """The bytes of all texts of an Arrow array, one after the other."""
    _, offsets, data = lines.buffers()
    width = 8 if pa.types.is_large_string(lines.type) else 4
    at = pa.Array.from_buffers(pa.int64() if width == 8 else pa.int32(), len(lines) + 1, [None, offsets], offset=lines.offset)
    return memoryview(data)[at[0].as_py():at[len(lines)].as_py()] if len(lines) else b""


def run_program(job, pairs, folder):
    """The rows of these pairs of logs in `folder`. A pair that ends the program gets a problem of its own."""
    listing = os.path.join(folder, "pairs")
    with open(listing, "w") as file:
        file.writelines(f"{ref}.jsonl\t{got}.jsonl\n" for ref, got in pairs)
    command = [job["program"], "fleet", "judge", "pairs", "--threads", "1"]
    if job["policy"]:
        for name, text in (("policy.json", job["policy"]), ("fast_floors.json", job["fast_floors"])):
            if text:  # a manifest's floors of fast stand beside it
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
        command += ["--policy", "policy.json"] + (["--floor", job["floor"]] if job["floor"] else [])
    for number, one in enumerate(job["maps"]):
        name = f"map-{number}.json" if one["text"] else ""
        if name:
            with open(os.path.join(folder, name), "w") as file:
                file.write(one["text"])
        command += ["--map", name + one["map"]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "ORCH_"))}
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    lines = answer.stdout.splitlines()
    if answer.returncode in (0, 1, 2) and len(lines) == len(pairs):  # 2 without lines: the policy, or a map
        return list(map(json.loads, lines))
    if len(pairs) == 1:
        ended = one_line(answer.stderr)[:MOST_PROBLEM] or f"exit code {answer.returncode}"
        return [{"problem": f"the comparer ended: {ended}"}]
    half = len(pairs) // 2
    return [row for part in (pairs[:half], pairs[half:]) for row in run_program(job, part, folder)]


def judge_pairs(job, pairs, runs):
    """The row of each pair, in their order. `job`: dataset, program, policy and fast_floors (texts), floor, maps; `runs`: run.json of each.

    What a row says depends on its two runs alone, not on the pairs that are judged with it.
    """
    with tempfile.TemporaryDirectory(prefix="assay-fleet-") as folder:
        sketches, values = (os.path.join(folder, name) for name in ("sketches", "values"))
        os.mkdir(sketches)
        os.mkdir(values)
        spool = Spool(Dataset(job["dataset"]), runs, sketches)
        all_runs = dict.fromkeys(run for pair in pairs for run in pair)
        spool.check(all_runs)
        spool.write(all_runs, sketches, False)
        # A map may take parts of tensors.
        by_sketches = [] if job["maps"] else [pair for pair in pairs if spool.needs_no_values(pair)]
        by_values = [pair for pair in pairs if pair not in by_sketches]
        spool.write(dict.fromkeys(run for pair in by_values for run in pair), values, True)
        rows = {pair: {"problem": spool.problems[run]} for pair in pairs for run in reversed(pair) if run in spool.problems}
        for place, group in ((sketches, by_sketches), (values, by_values)):
            group = [pair for pair in group if pair not in rows]
            if group:
                judged = run_program(job, group, place)
                rows.update((pair, {**row, "by_values": 0}) for pair, row in zip(group, judged))
        for pair in by_sketches:
            if rows[pair].get("differ") and not all(map(spool.has_heads, pair)):
                rows[pair] = judge_by_values(job, spool, pair, rows[pair])
    return [finished(pair, rows[pair]) for pair in pairs]


def judge_by_values(job, spool, pair, row):
    """Compares a pair again, with the values of the records that differ by their sketches."""
    with tempfile.TemporaryDirectory(prefix="assay-fleet-") as folder:
        try:
            counts = [spool.add_values(run, [(record[0], record[side]) for record in row["differ"]], folder)
                      for side, run in enumerate(pair, 1)]  # fmt: skip
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            text = spool.dataset.without_place(str(error).split("\n")[0])
            return {"problem": f"{' or '.join(f'run={run}' for run in pair)}: {text}"[:MOST_PROBLEM]}
        row = run_program(job, [pair], folder)[0]
        return {**row, "by_values": max(counts)}


def finished(pair, row):
    """As the table has it, without what only this task needed."""
    row.pop("differ", None)
    row.update(ref=pair[0], got=pair[1])
    if "problem" in row:
        return {"ref": pair[0], "got": pair[1], "verdict": "unreadable", "pass": False, "problem": row["problem"]}
    return row
