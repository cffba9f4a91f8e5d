# What the page shows, from the table of results.

MOST_ROWS = 500  # of each list
CASE = "engine, model, type, prompt, tokens"

# The state of each case in each night: the worst that its runs of the night's last commit have.
STATES = f"""
CREATE TEMP VIEW states AS
WITH judged AS (
  SELECT *, CASE WHEN verdict IN ('unreadable', 'no_reference') THEN 'not judged' WHEN pass THEN 'parity'
                 WHEN failed > 0 THEN 'diverged' ELSE 'not proved' END AS state,
         max(added) OVER (PARTITION BY night, commit, {CASE}) AS last_of_commit
  FROM results WHERE night IS NOT NULL)
SELECT * EXCLUDE last_of_commit FROM judged
QUALIFY row_number() OVER (PARTITION BY night, {CASE} ORDER BY last_of_commit DESC, commit DESC,
  list_position(['diverged', 'not judged', 'not proved', 'parity'], state), added DESC, run DESC) = 1
"""

CHANGES = f"""
WITH tonight AS (SELECT * FROM states WHERE night = $tonight),
     before AS (SELECT * FROM states WHERE night = $before)
SELECT t.engine, t.model, t.type, t.prompt, t.commit, t.run, t.reference, t.state, t.verdict, t.checkpoint, t.token_idx,
       t.metric, t.value, t.tolerance, t.problem, b.state AS state_before, b.checkpoint AS checkpoint_before,
       b.commit AS commit_before
FROM tonight t LEFT JOIN before b USING ({CASE})
WHERE {{which}} ORDER BY t.engine, t.model, t.type, t.prompt, t.run
"""
NEW = "t.state <> 'parity' AND (b.state IS NULL OR b.state = 'parity')"
STILL = "t.state <> 'parity' AND b.state <> 'parity'"
FIXED = "t.state = 'parity' AND b.state <> 'parity'"

GONE = f"""
SELECT b.engine, b.model, b.type, b.prompt, b.commit, b.run, b.state AS state_before
FROM (SELECT * FROM states WHERE night = $before) b ANTI JOIN (SELECT * FROM states WHERE night = $tonight) t USING ({CASE})
ORDER BY b.engine, b.model, b.type, b.prompt, b.run
"""

ENGINES = """
SELECT engine, count(*) AS runs, count(*) FILTER (state = 'parity') AS parity, count(*) FILTER (state = 'diverged') AS diverged,
       count(*) FILTER (state = 'not proved') AS not_proved, count(*) FILTER (state = 'not judged') AS not_judged,
       median(last_rel_l2) AS median_error, max(worst_of_tolerance) AS worst_of_tolerance
FROM states WHERE night = $tonight GROUP BY engine ORDER BY diverged DESC, engine
"""

OPS = """
SELECT engine, op, count(*) AS runs, min(layer) AS first_layer, max(layer) AS last_layer, mode(checkpoint) AS commonest,
       max(value) AS worst
FROM states WHERE night = $tonight AND state = 'diverged' GROUP BY engine, op ORDER BY runs DESC, engine, op
"""

# Commits in the order in which their first runs were added.
TRENDS = """
WITH commits AS (SELECT commit, min(added) AS first FROM results WHERE night IS NOT NULL GROUP BY commit)
SELECT engine, commit, any_value(first) AS first, min(night)::VARCHAR AS night, count(*) AS runs,
       count(*) FILTER (failed > 0) AS diverged, median(last_rel_l2) AS median_error, max(last_rel_l2) AS worst_error
FROM results JOIN commits USING (commit) WHERE night IS NOT NULL GROUP BY engine, commit ORDER BY engine, first, commit
"""


def plain_row(names, row):
    return {name: plain(value) for name, value in zip(names, row)}


def nights_of(dataset):
    """Those of all runs, references among them: no engine may have run in the last. The table may be all that there is."""
    try:
        runs, _ = Dataset(dataset).scan()
    except (OSError, Problem):
        return set()
    return {run["night"] for run in runs.values()}


def report_data(table, night, dataset):
    connection = connected()
    connection.execute(f"CREATE TEMP VIEW results AS SELECT * FROM read_parquet({quoted(table)})")
    connection.execute(STATES)

    def rows(query, **values):
        found = connection.execute(query, values) if values else connection.execute(query)
        names = [column[0] for column in found.description]
        return [plain_row(names, row) for row in found.fetchall()]

    nights = [row["night"] for row in rows("SELECT DISTINCT night::VARCHAR AS night FROM results WHERE night IS NOT NULL ORDER BY 1")]
    if not nights:
        raise Problem(f"{table}: has no run that was judged; see what assay fleet compare says")
    later = sorted(one for one in nights_of(dataset) if one > nights[-1])
    if night and night not in (*nights, *later):
        raise Problem(f"--night {night}: has no run; the last one is {nights[-1]}")
    tonight = night or nights[-1]
    before = max((one for one in nights if one < tonight), default=None)
    tables = {"engines": rows(ENGINES, tonight=tonight), "ops": rows(OPS, tonight=tonight), "trends": rows(TRENDS)}
    counts = {}
    for name, which in (("new", NEW), ("still", STILL), ("fixed", FIXED)):
        found = rows(CHANGES.format(which=which), tonight=tonight, before=before)
        counts[name] = len(found)
        tables[name] = found[:MOST_ROWS]
    gone = rows(GONE, tonight=tonight, before=before)
    counts["gone"], tables["gone"] = len(gone), gone[:MOST_ROWS]
    for name in ("runs", "parity", "diverged", "not_proved", "not_judged"):
        counts[name] = sum(row[name] for row in tables["engines"])
    problems = rows("SELECT run, problem FROM results WHERE problem IS NOT NULL AND (night = $tonight OR night IS NULL) "
                    "ORDER BY run", tonight=tonight)  # fmt: skip
    counts["problems"] = len(problems)
    data = {"dataset": dataset, "night": tonight, "before": before, "counts": counts, "problems": problems[:MOST_ROWS],
            "of_references_alone": [] if night else later, **tables}  # fmt: skip
    return {"text": report_text(data), **data}


def report_text(data):
    """The page for a terminal, and for where scripts are off."""
    counts = data["counts"]
    lines = [f"Night of {data['night']}" + (f", against {data['before']}" if data["before"] else ""),
             f"{counts['runs']} runs: {counts['parity']} in parity, {counts['diverged']} diverged, "
             f"{counts['not_proved']} not proved, {counts['not_judged']} not judged",
             f"{counts['new']} new, {counts['still']} as before, {counts['fixed']} in parity again, {counts['gone']} did not run", ""]  # fmt: skip
    lines += [f"{night}: runs of the reference alone, nothing judged; --night {night} shows what did not run" for night in data["of_references_alone"]]
    for row in data["new"]:
        where = f"{row['checkpoint']} at token {row['token_idx']}" if row["checkpoint"] else row["problem"] or row["state"]
        lines.append(f"new: {row['engine']}, {row['model']} {row['type']}, {row['prompt']!r}, commit {row['commit']}: {where}")
    lines += [f"did not run: {row['engine']}, {row['model']} {row['type']}, {row['prompt']!r}; {row['state_before']} the night before"
              for row in data["gone"]]  # fmt: skip
    lines += [f"{row['engine']}: {row['parity']} of {row['runs']} in parity" for row in data["engines"]]
    lines += [f"{row['engine']}: {row['runs']} diverge first at {row['op']}" for row in data["ops"]]
    return "\n".join(lines) + "\n"
