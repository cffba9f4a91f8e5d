# The commands: assay fleet gives one JSON object with the command and its options.

MOST_TOLD = 10
MOST_WARNINGS = 5


def tell(text):
    print("assay: " + "".join(c if c.isprintable() else "?" for c in one_line(text)), file=sys.stderr, flush=True)


def tell_not_proved(rows):
    if rows:
        runs = "1 run is" if len(rows) == 1 else f"{len(rows)} runs are"
        tell(f"{runs} not proved, such as {rows[0]['run']}: {rows[0]['unproven']} records of its reference {rows[0]['reference']} are "
             "unproven; log what the reference has, with --sketch")  # fmt: skip


def tell_all(problems):
    for text in problems[:MOST_TOLD]:
        tell(text)
    if len(problems) > MOST_TOLD:
        tell(f"{len(problems) - MOST_TOLD} further problems; the table has them all")


def tell_warnings(rows):
    """What the comparisons warned of, the most frequent first. Numbers apart, two texts are one warning."""
    texts, runs = {}, {}
    for row in rows:
        for text in dict.fromkeys(row.get("warnings", [])):
            kind = re.sub(r"[0-9]+", "#", text)
            texts.setdefault(kind, text)
            runs[kind] = runs.get(kind, 0) + 1
    kinds = sorted(runs, key=lambda kind: (-runs[kind], kind))
    for kind in kinds[:MOST_WARNINGS]:
        tell(f"warning, of {runs[kind]} of {len(rows)} runs: {texts[kind]}")
    if len(kinds) > MOST_WARNINGS:
        tell(f"{len(kinds) - MOST_WARNINGS} further warnings; the table has them all")


def tell_gone(rows, runs):
    """What ran the night before the last, and not in the last, unless it may be among the runs that cannot be read and were told.

    The last night may be one of references alone.
    """
    tonight = max((run["night"] for run in runs.values()), default="")
    nights = [max((row["night"] for row in rows if row.get("night", tonight) < tonight), default=None), tonight]
    if not nights[0]:
        return
    before, tonight = ({tuple(row[name] for name in CASE.split(", ")) for row in rows if row.get("night") == night} for night in nights)
    gone = sorted(before - tonight)
    if len(gone) > sum("night" not in row for row in rows):
        cases = "1 case" if len(gone) == 1 else f"{len(gone)} cases"
        tell(f"warning: {cases} of the night of {nights[0]} did not run in that of {nights[1]}, such as {', '.join(gone[0][:4])}; "
             "assay fleet report names them")  # fmt: skip


def tell_unchecked(judged, runs):
    bare = sorted(run for run in judged if not runs[run]["sha256"])
    if bare:
        tell(f"warning: nothing shows that log.parquet is what was added in {len(bare)} of {len(judged)} runs, such as run={bare[0]}, "
             "as run.json has no sha256: they are judged by all that they hold now; add them again")  # fmt: skip


def add(options):
    place, night = options["dataset"], options["night"] or datetime.date.today().isoformat()
    if not is_date(night):
        raise Problem(f"--night {night}: is no date; give one such as 2026-01-31")
    if "://" in place:
        raise Problem(f"{place}: runs are added to a folder of this machine; copy it to the URL afterwards")
    os.makedirs(place, exist_ok=True)
    problems = []

    def one(log):
        try:
            run, warnings = new_run(log, place, options["commit"], night, options["program"])
            for warning in warnings:
                tell(warning)
            return os.path.basename(run)
        except (Problem, OSError, ValueError, KeyError, pa.ArrowException) as error:
            problems.append(one_line(error))
            return None

    with ThreadPoolExecutor(options["threads"] or os.cpu_count()) as pool:
        for name in pool.map(one, options["logs"]):
            if name and options["prints_runs"]:
                print(name)
            elif name:
                print(f"added to {place} as {name}", file=sys.stderr)
    tell_all(sorted(problems))
    return 2 if problems else 0


def results_folder(options, dataset):
    folder = options["results"] or ("" if dataset.files else os.path.join(dataset.root, "results"))
    if not folder:
        raise Problem(f"{dataset.place}: is no folder of this machine; give --results FOLDER")
    os.makedirs(folder, exist_ok=True)
    return folder


def refuse_changed_logs(dataset, runs, pairs, rows):
    """Takes back what was judged before of runs whose log.parquet is not what was added any more. Of a dataset of this machine."""
    if dataset.files is not None:
        return

    def problem_of(run):
        try:
            dataset.check_log(run)
            return None
        except Problem as problem:
            return str(problem)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        judged = {run: None for pair in pairs for run in pair}
        problems = dict(zip(judged, pool.map(lambda run: problem_of(runs[run]), judged)))
    for pair in pairs:
        for run in reversed(pair):
            if problems[run]:
                rows[pair] = finished(pair, {"problem": problems[run]})


def compare(options):
    dataset = Dataset(options["dataset"])
    job = {name: options[name] for name in ("dataset", "program", "policy", "floor", "fast_floors", "maps")}
    runs, broken = dataset.scan()
    tell_all(list(broken.values()))
    folder = results_folder(options, dataset)
    pairs, alone, engines = plan(runs, options["reference"])
    is_guess = len(engines) > 1 and not options["reference"]  # one of them may be what was to be judged
    if len(engines) > 1:
        tell(f"{'' if is_guess else 'warning: '}{len(engines)} engines are the reference, so that their runs are not judged: "
             f"{', '.join(engines[:4])}{', ...' if len(engines) > 4 else ''}; name one with --reference")  # fmt: skip
    tell_unchecked({run for pair in pairs for run in pair}, runs)
    results = Results(folder, job, runs)
    rows = results.rows()
    refuse_changed_logs(dataset, runs, [pair for pair in pairs if pair in rows], rows)
    left = [pair for pair in pairs if pair not in rows]
    before = len(pairs) - len(left)
    if left:
        workers = connect_to_ray(options["ray"]) if options["ray"] else options["threads"] or os.cpu_count()
        tasks = tasks_of(left, runs, workers)
        judged = judge_on_ray(job, tasks, runs, options["ray"]) if options["ray"] else judge_here(job, tasks, runs, workers)
        for task, found in judged:
            results.write(found)
            rows.update(zip(task, found))
            if sys.stderr.isatty():
                print(f"\rjudged {len(rows)} of {len(pairs)}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    table = os.path.join(folder, "results.parquet")
    found = list(table_rows(runs, pairs, alone, rows))
    for folder_name, problem in broken.items():
        found.append({"run": folder_name.removeprefix("run="), "verdict": "unreadable", "pass": False, "problem": problem})
    write_table(table, found)
    problems = [row["problem"] for row in found if "problem" in row]
    tell_all(sorted(set(problems) - set(broken.values())))
    tell_warnings(found)
    tell_gone(found, runs)
    failed = sum(row.get("failed", 0) > 0 for row in found)
    passed = sum(row["pass"] for row in found)
    tell_not_proved([row for row in found if not row["pass"] and not row.get("failed", 0) and "problem" not in row])
    by_parts = sum(row["pass"] and row["partial"] > 0 for row in found)
    runs_held = "1 run held to its reference" if len(found) == 1 else f"{len(found)} runs held to their references"
    print(f"{runs_held}: {passed} in parity, {failed} diverged, "
          f"{len(found) - passed - failed - len(problems)} not proved, {len(problems)} not judged"
          + (f"; {by_parts} in parity only by a part of some records" if by_parts else ""))  # fmt: skip
    print(f"{len(left)} judged now, {before} before; the table is {table}")
    return 1 if failed else 0 if passed == len(found) and not is_guess else 2


def report(options):
    table, output = options["table"], options["output"]
    if not os.path.isfile(table):
        table = os.path.join(options["table"], "results", "results.parquet")
    dataset = options["dataset"] or os.path.dirname(os.path.dirname(os.path.abspath(table)))
    place = os.path.realpath(output) if output else ""
    kept = (os.path.join(os.path.realpath(dataset), "run="), os.path.join(os.path.dirname(os.path.realpath(table)), "judge="))
    if place == os.path.realpath(table) or place.startswith(kept):
        raise Problem(f"{output}: the report would overwrite its input; give another -o")
    try:
        if not os.path.isfile(table):
            raise Problem(f"{options['table']}: no results; run assay fleet compare first, and give the dataset or its results.parquet")
        data = report_data(table, options["night"], dataset)
    except (duckdb.Error, Problem) as error:
        if os.path.isfile(output):  # of an earlier night
            os.remove(output)
        if isinstance(error, Problem):
            raise
        raise Problem(f"{table}: {one_line(str(error))[:MOST_PROBLEM]}; run assay fleet compare again") from None
    if options["json"]:
        print(json.dumps(data))
        return 0
    with tempfile.TemporaryDirectory(prefix="assay-fleet-") as folder:
        path = os.path.join(folder, "report.json")
        with open(path, "w") as file:
            json.dump(data, file)
        return subprocess.run([options["program"], "fleet", "page", path, *(["-o", output] if output else [])]).returncode


def run_command():
    options = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return {"add": add, "compare": compare, "report": report}[options["command"]](options)
    except Problem as problem:
        tell(problem)
    except (OSError, duckdb.Error, MemoryError) as error:
        place = getattr(error, "filename", None) or options.get("dataset") or options.get("table")
        tell(f"{place}: {one_line(error)[:MOST_PROBLEM] or type(error).__name__}")
    except KeyboardInterrupt:
        tell("interrupted; what was judged is kept, and the same command goes on")
        sys.stdout.flush()
        os._exit(130)
    return 2


sys.exit(run_command())
