# Who judges: threads of this process, or the workers of a Ray cluster. Both give (pairs, rows) as tasks end, in any order.

MOST_PAIRS = 250  # of one task
MOST_BYTES = 1 << 28  # of Parquet in one task that has more than one pair
LONG = 3  # a task that takes this many times the median is a straggler, after MIN_LONG seconds
MIN_LONG = 10.0


def tasks_of(pairs, runs, workers):
    """The pairs in pieces, each of neighbours, which often have one reference. A large pair is one of its own."""
    most = max(1, min(MOST_PAIRS, -(-len(pairs) // (4 * workers))))
    task, size, known = [], 0, set()
    for pair in pairs:
        more = sum(runs[run]["bytes"] for run in set(pair) - known)
        if task and (len(task) == most or size + more > MOST_BYTES):
            yield task
            task, size, known = [], 0, set()
            more = sum(runs[run]["bytes"] for run in pair)
        task.append(pair)
        size += more
        known.update(pair)
    if task:
        yield task


def runs_in(task, runs):
    return {run: runs[run] for pair in task for run in pair}


def judge_here(job, tasks, runs, workers):
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(judge_pairs, job, task, runs_in(task, runs)): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting.pop(done), done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def with_own_program(job, program):
    """The job with the driver's program, which this node may not have: it is kept beside its other temporary files."""
    digest = hashlib.sha256(program).hexdigest()[:16]
    folder = os.path.join(tempfile.gettempdir(), f"assay-fleet-program-{os.getuid()}")
    path = os.path.join(folder, digest)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        raise Problem(f"{folder}: belongs to another user; remove it, or set TMPDIR")
    if not os.path.exists(path):
        part = tempfile.mkstemp(dir=folder)
        with os.fdopen(part[0], "wb") as file:
            file.write(program)
        os.chmod(part[1], 0o700)
        os.replace(part[1], path)
    return {**job, "program": path}


def judge_on_node(job, program, task, runs):
    return judge_pairs(with_own_program(job, program), task, runs)


def judge_on_ray(job, tasks, runs, address):
    """Ray starts a task again whose worker or node died. One that keeps failing is cut in halves, down to one pair."""
    import ray

    with open(job["program"], "rb") as file:
        program = ray.put(file.read())
    shared = ray.put(job)
    remote = ray.remote(num_cpus=1, max_retries=5)(judge_on_node)
    running, started, done, seconds = {}, {}, set(), []

    def start(task):
        reference = remote.remote(shared, program, task, runs_in(task, runs))
        running[reference], started[reference] = task, time.monotonic()

    queue = list(reversed(list(tasks)))
    while queue or running:
        while queue and len(running) < 2 * max(1, int(ray.cluster_resources().get("CPU", 1))):
            start(queue.pop())
        ready, _ = ray.wait(list(running), timeout=1)
        for reference in ready:
            task = running.pop(reference)
            took = time.monotonic() - started.pop(reference)
            if task[0] in done:
                continue  # its copy was faster
            try:
                rows = ray.get(reference)
                seconds.append(took)
            except ray.exceptions.RayError as error:
                copies = [one for one in running.values() if one == task]
                if copies:
                    continue
                if len(task) > 1:
                    queue += [task[: len(task) // 2], task[len(task) // 2 :]]
                    continue
                rows = [finished(task[0], {"problem": f"its worker failed: {one_line(error)[:MOST_PROBLEM]}"})]
            done.update(task)
            yield task, rows
        if not queue and seconds:
            limit = max(MIN_LONG, LONG * statistics.median(seconds))
            for reference, task in list(running.items()):
                alone = sum(one == task for one in running.values()) == 1
                if alone and task[0] not in done and time.monotonic() - started[reference] > limit:
                    start(task)
        if not queue and all(task[0] in done for task in running.values()):
            for reference in running:
                ray.cancel(reference, force=True)
            return


def connect_to_ray(address):
    try:
        import ray
    except ImportError:
        raise Problem("ray is not installed; pip install ray, or leave out --ray") from None
    try:
        if re.fullmatch(r"[\w.-]+:\d+", address):  # Ray itself would try for minutes
            host, port = address.rsplit(":", 1)
            socket.create_connection((host, int(port)), 10).close()
        ray.init(address=None if address == "local" else address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError, OverflowError) as error:
        raise Problem(f"--ray {address}: {one_line(error)[:MOST_PROBLEM]}; start a cluster with ray start, or give local") from None
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
