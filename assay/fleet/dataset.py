# The dataset of a fleet: a folder run=ID for each run, with log.parquet (a row a record) and run.json.
import datetime
import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

RUN_FACTS = ("commit", "night", "added")
HEADER_FACTS = ("engine", "backend", "math")
MODEL_FACTS = ("name", "sha256", "arch", "type")
SOUND, HEADER = "assay.sound", "assay.header"  # in the metadata of log.parquet: what run.json says, too


class Problem(Exception):
    """Bad input: one line that says where and what to do."""


def one_line(text):
    """Of an error of the system its reason alone."""
    return " ".join(str(getattr(text, "strerror", None) or text).split())


def digest_of(file, digest):
    """Adds the file's bytes to the digest."""
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest


def is_date(text):
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def connected(**config):
    """A connection to DuckDB, which would show its progress on standard output to a program run with -c."""
    connection = duckdb.connect(config=config)
    connection.execute("SET enable_progress_bar = false")
    return connection


def literal(path):
    """The path as DuckDB reads it, for which *, ? and [ are patterns of paths."""
    return re.sub(r"([*?[])", r"[\1]", path)


def quoted(path):
    """The same as text of SQL."""
    return "'" + literal(path).replace("'", "''") + "'"


class Dataset:
    """A folder of this machine (also NFS), or any URL of fsspec."""

    def __init__(self, place):
        self.place = place
        self.files = None
        self.root = place
        if "://" in place:
            try:
                import fsspec

                self.files, self.root = fsspec.core.url_to_fs(place)
            except (ImportError, ValueError, OSError) as error:
                raise Problem(f"{place}: {one_line(error)}; check the URL, and that fsspec can open it") from None
        self.root = self.root.rstrip("/") or "/"

    def path(self, *parts):
        return "/".join((self.root, *parts))

    def open(self, *parts):
        path = self.path(*parts)
        if self.files:
            return self.files.open(path, "rb")
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe may wait for ever
            raise OSError(f"{path}: is not a regular file")
        return open(path, "rb")

    def duckdb(self):
        """A connection of one thread that reads this dataset's files, and what they are called there."""
        connection = connected(threads=1)
        if self.files is None:
            return connection, self.path
        connection.register_filesystem(self.files)
        protocol = self.files.protocol if isinstance(self.files.protocol, str) else self.files.protocol[0]
        return connection, lambda *parts: f"{protocol}://{self.path(*parts).removeprefix(f'{protocol}://')}"

    def without_place(self, text):
        """The same error whatever machine reads the dataset, and from where."""
        return one_line(text).replace(self.place.rstrip("/") + "/", "").replace(self.root + "/", "")

    def run_folders(self):
        try:
            names = os.listdir(self.root) if self.files is None else [
                entry.rstrip("/").rsplit("/", 1)[-1] for entry in self.files.ls(self.root, detail=False)]
        except (OSError, ValueError) as error:
            raise Problem(f"{self.place}: {one_line(error)}; give a folder that assay fleet add wrote") from None
        return sorted(name for name in names if name.startswith("run="))

    def size(self, *parts):
        return os.stat(self.path(*parts)).st_size if self.files is None else self.files.size(self.path(*parts))

    def read_run(self, folder):
        """What run.json says, checked. Throws Problem."""
        try:
            with self.open(folder, "run.json") as file:
                run = json.load(file)
            size = self.size(folder, "log.parquet")
        except (OSError, ValueError, RecursionError) as error:
            raise Problem(f"{folder}: {self.without_place(error)}; add the run again") from None
        checked_run(run, folder)
        if size != run["bytes"]:
            raise Problem(f"{folder}/log.parquet: has {size} bytes, and run.json says {run['bytes']}; add the run again")
        return run

    def check_log(self, run):
        """Throws Problem unless log.parquet has the bytes that were added, where run.json states their hash."""
        folder = f"run={run['run']}"
        if not run["sha256"]:
            return
        try:
            with self.open(folder, "log.parquet") as file:
                found = digest_of(file, hashlib.sha256()).hexdigest()
        except (OSError, ValueError) as error:
            raise Problem(f"{folder}/log.parquet: {self.without_place(error)}"[:MOST_PROBLEM]) from None
        if found != run["sha256"]:
            raise Problem(f"{folder}/log.parquet: is not what was added, as its SHA-256 is not that in run.json; add the run again")

    def scan(self):
        """The runs by their ids, and the problems of those that cannot be taken, by folder."""
        runs, problems = {}, {}
        folders = self.run_folders()
        with ThreadPoolExecutor(1 if self.files is None else 16) as pool:
            for folder, (run, problem) in zip(folders, pool.map(self.try_run, folders)):
                if problem:
                    problems[folder] = problem
                else:
                    runs[run["run"]] = run
        if not folders:
            raise Problem(f"{self.place}: holds no run; add logs with assay fleet add")
        return runs, problems

    def try_run(self, folder):
        try:
            return self.read_run(folder), None
        except Problem as problem:
            return None, str(problem)


def checked_run(run, folder):
    """Throws Problem unless `run` has the form that add() writes. Absent text becomes empty."""

    def refuse(what):
        raise Problem(f"{folder}/run.json: {what}; add the run again")

    if not isinstance(run, dict) or run.get("assay_run") != 1 or not isinstance(run.get("header"), dict):
        refuse("is not what assay fleet add writes")
    run["header_line"] = json.dumps(run["header"])  # before what is absent becomes empty
    if f"run={run.get('run')}" != folder:
        refuse(f"says that it is run {one_line(run.get('run'))[:40]}: a copy of another run")
    header = run["header"]
    if not isinstance(header.setdefault("model", {}), dict):
        refuse("'model' is not an object")
    for holder, names in ((run, (*RUN_FACTS, "sha256")), (header, (*HEADER_FACTS, "prompt")), (header["model"], MODEL_FACTS)):
        for name in names:
            if holder.get(name) is None:
                holder[name] = ""
            elif not isinstance(holder[name], str):
                refuse(f"'{name}' is not text")
    if not is_date(run["night"]):
        refuse("'night' is no date such as 2026-01-31")
    if type(run.setdefault("sound", False)) is not bool:  # older datasets do not say
        refuse("'sound' is not true or false")
    for name in ("bytes", "records", "values"):
        if type(run.get(name)) is not int or run[name] < 0:
            refuse(f"'{name}' is no count")
    tokens = header.setdefault("tokens", [])
    if not isinstance(tokens, list) or any(type(token) is not int for sequence in token_lists(header) for token in sequence):
        refuse("'tokens' is no list of ids, and no list of such lists")


def token_lists(header):
    """The tokens of each sequence."""
    tokens = header["tokens"]
    return tokens if tokens and all(isinstance(sequence, list) for sequence in tokens) else [tokens]


def facts_of(run):
    """A run's row in the table."""
    header = run["header"]
    model = header["model"]
    tokens = ";".join(",".join(map(str, sequence)) for sequence in token_lists(header))
    return {
        "run": run["run"], "night": run["night"], "commit": run["commit"], "added": run["added"],
        "engine": " ".join(filter(None, (header[name] for name in HEADER_FACTS))),
        "model": model["name"] or model["sha256"][:12], "type": model["type"],
        "prompt": header["prompt"] or tokens[:60], "bytes": run["bytes"],
        "tokens": hashlib.sha256(tokens.encode()).hexdigest()[:12] if tokens else "",
    }  # fmt: skip


def case_of(run):
    """What a reference and a run that is held to it have in common."""
    header = run["header"]
    model = header["model"]
    tokens = sorted(map(tuple, token_lists(header)))  # sequences of a batch have no order
    return (model["sha256"] or (model["name"], model["type"]), tuple(tokens) if any(tokens) else header["prompt"] or None)


def plan(runs, reference):
    """The pairs (reference, run) in the order of their ids, why other runs have no reference, and the reference's engines.

    A run's reference has the same model, type and tokens: that of the same commit, else the latest.
    """
    def is_reference(run):
        return reference in facts_of(run)["engine"] if reference else run["header"]["math"] == "float64"

    references, pairs, alone = {}, [], {}
    for run in runs.values():
        if is_reference(run):
            references.setdefault(case_of(run), []).append(run)
    for run in runs.values():
        if is_reference(run):
            continue
        fitting = references.get(case_of(run))
        if case_of(run)[1] is None:
            alone[run["run"]] = (f"run={run['run']}: its header names neither tokens nor a prompt, so that no reference is known to "
                                 "be its own; log with them")  # fmt: skip
            continue
        if not fitting:
            alone[run["run"]] = f"run={run['run']}: no run of the reference has its model, type and tokens; add one"
            continue
        best = max(fitting, key=lambda one: (one["commit"] == run["commit"], one["night"], one["added"], one["run"]))
        pairs.append((best["run"], run["run"]))
    if not references:
        raise Problem("no run is of the reference (" + (reference or "math float64") + "); name its engine with --reference")
    if not pairs:
        raise Problem("all runs are of the reference, or of models and prompts that it did not run; add runs to judge")
    engines = sorted({facts_of(run)["engine"] for fitting in references.values() for run in fitting})
    return sorted(pairs), alone, engines


def is_whole(dataset, folder):
    """Whether the run is there, and its log is the one that was added."""
    run, _ = dataset.try_run(folder)
    try:
        if run:
            dataset.check_log(run)
        return bool(run and run["sha256"])
    except Problem:
        return False


def new_run(log, place, commit, night, program):
    """Adds a log, and returns its run's folder and warnings. The same log of the same commit and night is the same run."""
    digest = hashlib.sha256(f"{commit}\n{night}\n".encode())
    try:
        if not stat.S_ISREG(os.stat(log).st_mode):  # a pipe can be read once, and by whom it waits for no end
            raise Problem(f"{log}: is not a regular file; give the path of a log")
        if log.endswith((".npz", ".parquet", ".safetensors")):
            raise Problem(f"{log}: is a log in another format; give what assay convert {log} LOG.jsonl writes")
        with open(log, "rb") as file:
            digest_of(file, digest)
    except OSError as error:
        raise Problem(f"{log}: {error.strerror}") from None
    run = digest.hexdigest()[:16]
    target = os.path.join(place, f"run={run}")
    if is_whole(Dataset(place), os.path.basename(target)):
        return target, []
    work = tempfile.mkdtemp(prefix=".new-", dir=place)
    try:
        arrays, parquet = os.path.join(work, "log.safetensors"), os.path.join(work, "log.parquet")
        with tempfile.TemporaryDirectory(prefix="assay-fleet-") as folder:
            link = os.path.join(folder, "log.jsonl")  # whatever the log's own name ends in
            os.symlink(os.path.abspath(log), link)
            _, warnings = told_of(log, link, [program, "convert", link, arrays])
            sound, _ = told_of(log, link, [program, "fleet", "check", link])
        is_sound = json.loads(sound)["sound"]
        to_parquet(arrays, parquet, {SOUND: json.dumps(is_sound)})
        os.remove(arrays)
        with open(parquet, "rb") as file:
            parquet_digest = digest_of(file, hashlib.sha256()).hexdigest()
        metadata = pq.read_metadata(parquet)
        header = json.loads((metadata.metadata or {}).get(HEADER.encode(), b"{}"))
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        values = sum(column.num_values for group in groups for column in map(group.column, range(group.num_columns))
                     if column.path_in_schema.startswith("values."))  # fmt: skip
        facts = {"assay_run": 1, "run": run, "commit": commit, "night": night,
                 "added": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                 "bytes": os.path.getsize(parquet), "records": metadata.num_rows, "values": values, "header": header,
                 "sound": is_sound, "sha256": parquet_digest}  # fmt: skip
        checked_run(json.loads(json.dumps(facts)), f"run={run}")
        if not facts["header"].get("model"):
            raise Problem(f"{log}: no header names its model; log with a first line "
                          '{"assay":1,"model":{"name":...},"tokens":[...],"engine":...}')
        with open(os.path.join(work, "run.json"), "w") as file:
            json.dump(facts, file)
        os.chmod(work, 0o755)
        shutil.rmtree(target, ignore_errors=True)  # half of a copy, or changed since
        try:
            os.rename(work, target)
        except OSError as error:  # or another process has just added the same run
            if not is_whole(Dataset(place), os.path.basename(target)):
                raise Problem(f"{target}: cannot be replaced: {one_line(error)}; remove it, and add the log again") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target, warnings


def told_of(log, link, command):
    """What a command says of the log that it reads by a link, and its warnings. Throws Problem."""
    answer = subprocess.run(command, capture_output=True, text=True)
    said = [line.removeprefix("assay: ").replace(link, log) for line in answer.stderr.splitlines()]
    if answer.returncode:
        raise Problem(" ".join(said) or f"{log}: cannot be read")
    return answer.stdout, said
