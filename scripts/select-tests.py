#!/usr/bin/env python3
"""Selects the API tests that also run on PostgreSQL, from what a run on SQLite recorded in a directory (see src/db/statements.rs).

Together, they run every statement that any test runs: a statement is a place in the code and a text, because a place can have several
texts. Of tests that run the same statements, those that took less time are preferred. Tests that depend on the database server beyond
its statements are always selected. If OPENVIBE_TEST_SAMPLE is set, it chooses a third of all of these, and their order. What only tests
run that were left out on SQLite is not known.

  cargo test --test api -- --list | scripts/select-tests.py target/statements
"""
import collections
import hashlib
import os
import pathlib
import re
import sys

# Tests of connections, notifications, several servers, and copies of whole databases.
ALWAYS = ("backup::", "blobs_s3::", "chaos::nodes::", "nodes::", "postgres_faults::", "shared_database::")
# Names of tests in which two people, or two servers, do the same thing at once.
RACES = re.compile(
    r"(two|many|several)\w*_at_once|at_the_same_time|concurrent|nothing_twice|one_wins|only_one|simultaneous|parallel|side_by_side"
)


def read(recorded: pathlib.Path) -> tuple[dict, dict]:
    """Returns the statements of each test, and about the seconds that it took, plus one for its start."""
    statements = collections.defaultdict(set)
    seconds = collections.defaultdict(lambda: 1.0)
    for file in recorded.glob("[0-9]*"):
        times = collections.defaultdict(list)
        for line in file.read_text().splitlines():
            test, place, text, time = line.split("\t")
            statements[test].add((place, text))
            times[test].append(int(time) / 1000)
        for test, ran in times.items():
            seconds[test] += max(ran) - min(ran)
    return statements, seconds


def sample(tests: list[str]) -> list[str]:
    """Returns the tests of the sample, in its order."""
    chosen_by = os.environ.get("OPENVIBE_TEST_SAMPLE")
    if not chosen_by:
        return tests
    ranks = {test: hashlib.sha256((chosen_by + test).encode()).digest() for test in tests}
    return sorted((test for test in tests if ranks[test][0] % 3 == 0), key=ranks.get)


def main() -> None:
    recorded = pathlib.Path(sys.argv[1])
    tests = [line.removesuffix(": test") for line in sys.stdin.read().splitlines() if line.endswith(": test")]
    gone = [prefix for prefix in ALWAYS if not any(test.startswith(prefix) for test in tests)]
    if gone:
        sys.exit(f"select-tests.py: no test has the prefix {gone}")
    statements, seconds = read(recorded)
    unknown = set().union(*statements.values()) - set().union(*(statements[test] for test in tests))
    selected = [test for test in tests if test.startswith(ALWAYS) or RACES.search(test)]
    missing = set().union(*(statements[test] for test in tests)) - set().union(*(statements[test] for test in selected))
    rest = {test: statements[test] & missing for test in tests}
    added = []
    while missing:
        best = max(rest, key=lambda test: len(rest[test]) / seconds[test])
        added.append(best)
        missing -= rest.pop(best)
        rest = {test: found & missing for test, found in rest.items() if found & missing}
    # Later choices can make earlier ones unnecessary.
    times = collections.Counter(statement for test in selected + added for statement in statements[test])
    for test in sorted(added, key=lambda test: -seconds[test]):
        if all(times[statement] > 1 for statement in statements[test]):
            added.remove(test)
            times.subtract(statements[test])
    selected += added
    chosen = sample(selected)
    print(*chosen, sep="\n")
    total = len(set().union(*statements.values()))
    print(
        f"{len(selected)} of {len(tests)} tests run all {total - len(unknown)} recorded statements; "
        f"{len(unknown)} others ran outside of any test; {len(chosen)} run now",
        file=sys.stderr,
    )
    for place, _ in sorted(unknown)[:20]:
        print(f"  {place}", file=sys.stderr)


if __name__ == "__main__":
    main()
