"""Counts what each operation answered, for run.py to look at."""

import atexit
import collections
import json
import os
import threading

import schemathesis

counts = collections.defaultdict(collections.Counter)
lock = threading.Lock()


@schemathesis.hook
def after_call(context, case, response):
    with lock:
        counts[f"{case.operation.method.upper()} {case.operation.path}"][response.status_code] += 1


@atexit.register
def write():
    with open(os.environ["OPENVIBE_FUZZ_COUNTS"], "w") as file:
        json.dump(counts, file)
