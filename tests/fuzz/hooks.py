"""Hooks of schemathesis: credentials of each request, new objects for requests that consume one, and counts of the responses.

run.py writes the plan of the run to a file: credentials, the IDs of the run, the examples of bodies, and the required query
parameters.
"""

import atexit
import collections
import json
import os
import random
import sys
import threading
from pathlib import Path

import schemathesis
from schemathesis.specs.openapi.stateful.dependencies import models

sys.path.insert(0, str(Path(__file__).parent))
from fresh import FRESH  # noqa: E402
from things import Things, UNUSED  # noqa: E402

PLAN = json.loads(Path(os.environ["OPENVIBE_FUZZ_PLAN"]).read_text())
counts = collections.defaultdict(collections.Counter)
lock = threading.RLock()
chance = random.Random(PLAN["seed"])
Things.model = PLAN["model"]
maker = Things(PLAN["base"], "fresh").log_in(PLAN["email"]).begin(PLAN["workspace"])
kept = {*PLAN["kept"], PLAN["workspace"], maker.current_session()}

merge = models._merge_nested_body
# schemathesis 4.32.5 fails on lists in lists, such as `branches` of a workflow's step, so the first list is used
# unchanged.
models._merge_nested_body = lambda into, more: merge(into, more) if isinstance(into, dict) and isinstance(more, dict) else None

LEAVING = {
    "POST /v1/auth/login": Things.session,
    "POST /v1/auth/logout": Things.session,
    "POST /v1/auth/signup": Things.session,
    "POST /v1/auth/password": lambda maker: maker.newcomer().headers["Cookie"],
    "DELETE /v1/auth/sessions": lambda maker: maker.newcomer().headers["Cookie"],
}


def name(case):
    return f"{case.operation.method.upper()} {case.operation.path}"


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = name(case)
    path = dict(case.path_parameters or {})
    # Protects the session, key, membership, and model that the run uses, because their IDs occur in responses.
    spoils = case.operation.method.upper() in ("PATCH", "DELETE") or operation.endswith(("/erase", "/model"))
    replaced = {*UNUSED.values(), *(kept if spoils else [])}
    wanted = any(value in replaced for value in path.values())
    example = PLAN["bodies"].get(operation)
    body = case.body if isinstance(case.body, dict) and isinstance(example, dict) else {}
    with lock:
        fresh = {}
        if operation in FRESH and (wanted or body or not path):
            fresh = FRESH[operation](maker)
            for field, value in path.items():
                if field in fresh and value in replaced:
                    path[field] = fresh[field]
            case.path_parameters = path
            same = {f: v for f, v in fresh.get("body", {}).items() if f in body and body[f] == example.get(f)}
            if same:
                case.body = {**body, **same}
            if "whole" in fresh and case.body == example:
                case.body = fresh["whole"]
            case.headers = {**(case.headers or {}), **fresh.get("headers", {})}
        headers = dict(PLAN["headers"])
        # Logging in or out ends the current session; two other operations end all others.
        if operation in LEAVING and "Cookie" in headers:
            headers["Cookie"] = LEAVING[operation](maker)
        given = dict(case.headers or {})
        done = any(200 <= status < 300 for status in counts[operation])
        # A response reports only one invalid parameter, such as a wrong workspace, so sometimes drop the others.
        if "X-Workspace-Id" in given or "Cookie" in headers:
            if "X-Workspace-Id" not in given or not done or chance.random() < 0.9:
                given["X-Workspace-Id"] = PLAN["workspace"]
        if "query" in fresh and not done:
            case.query = fresh["query"]
        elif case.query and not done:
            needed = ("limit", "q", *PLAN["required"][operation])
            case.query = {field: value for field, value in case.query.items() if field in needed}
        elif case.query and len(case.query) > 1 and chance.random() < 0.6:
            case.query = dict(chance.sample(sorted(case.query.items(), key=str), chance.randint(1, 2)))
        case.headers = {**given, **headers}


@schemathesis.hook
def after_call(context, case, response):
    with lock:
        counts[name(case)][response.status_code] += 1


@atexit.register
def write():
    Path(PLAN["counts"]).write_text(json.dumps(counts))
