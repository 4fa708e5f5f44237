#!/usr/bin/env python3
"""Selects the API tests that also run on PostgreSQL, from what a run on SQLite recorded in a directory (see src/db/statements.rs).

Together, they run every statement that any test runs: a statement is a place in the code and a text, because a place can have several
texts. Tests that depend on the database server beyond its statements are always selected.

  cargo test --test api -- --list | scripts/select-tests.py target/statements
"""
import collections
import pathlib
import re
import sys

# Tests of connections, notifications, several servers, crashes, and copies of whole databases.
ALWAYS = ("backup::", "blobs_s3::", "chaos::nodes::", "kills::", "nodes::", "postgres_faults::", "shared_database::")
# Names of tests in which two people, or two servers, do the same thing at once.
RACES = re.compile(r"at_once|at_the_same_time|concurrent|race|both|twice|one_wins|only_one|simultaneous|parallel|side_by_side")


def main() -> None:
    recorded = pathlib.Path(sys.argv[1])
    tests = [line.removesuffix(": test") for line in sys.stdin.read().splitlines() if line.endswith(": test")]
    gone = [prefix for prefix in ALWAYS if not any(test.startswith(prefix) for test in tests)]
    if gone:
        sys.exit(f"select-tests.py: no test has the prefix {gone}")
    statements = collections.defaultdict(set)
    for file in recorded.glob("[0-9]*"):
        for line in file.read_text().splitlines():
            test, place, text = line.split("\t")
            statements[test].add((place, text))
    unknown = set().union(*statements.values()) - set().union(*(statements[test] for test in tests))
    selected = [test for test in tests if test.startswith(ALWAYS) or RACES.search(test)]
    missing = set().union(*(statements[test] for test in tests)) - set().union(*(statements[test] for test in selected))
    rest = {test: statements[test] & missing for test in tests}
    while missing:
        best = max(rest, key=lambda test: len(rest[test]))
        selected.append(best)
        missing -= rest.pop(best)
        rest = {test: found & missing for test, found in rest.items() if found & missing}
    print(*selected, sep="\n")
    total = len(set().union(*statements.values()))
    print(
        f"{len(selected)} of {len(tests)} tests run all {total - len(unknown)} statements; "
        f"{len(unknown)} others ran outside of any test",
        file=sys.stderr,
    )
    for place, _ in sorted(unknown)[:20]:
        print(f"  {place}", file=sys.stderr)


if __name__ == "__main__":
    main()
