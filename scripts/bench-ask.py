#!/usr/bin/env python3
"""Measure answers with sources from a large workspace, by the built-in responder and by a scripted model (bench_reader.py).

    OPENVIBE_BIN=target/release/openvibe scripts/bench-ask.py [--messages 100000] [--questions 60] [--seed 1] [--offline | --model]
        [--misses FILE]

Posts generated talk with facts (bench_talk.py) over HTTP, then asks each question in a new thread, in each run on a copy of the same
data. An answer is right if it cites the message with the fact. If not everyone where the question is asked can read the fact, it is right
if it cites nothing, and no hidden text is in it or in what the model was sent. An invalid link is a source that the person who asked
cannot open, or one without its [n], or an [n] without a source. A leak is a reply, request, or source with text of another private
channel. `--misses` writes wrong answers, invalid links, and leaks as JSON lines.
"""

import argparse
import concurrent.futures
import dataclasses
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time

from bench_reader import Reader
from bench_server import HOST, Person, post, running
from bench_talk import PrivateText, Question, generate

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "fuzz"))
import model  # noqa: E402

CONNECTIONS = 16
ANSWER_SECONDS_MAX = 60
POLL_SECONDS = 0.02
NO_MODEL = {"OPENVIBE_MODEL_BASE_URL": "", "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""}
TARGETS = {"offline": 0.85, "model": 0.95}


@dataclasses.dataclass
class Loaded:
    people: dict
    # IDs by name.
    channels: dict
    # IDs of messages, by the numbers of their facts.
    facts: dict


@dataclasses.dataclass
class Answer:
    question: Question
    # Status of the task.
    status: str
    text: str
    # Cited messages that the person who asked can read.
    cited: list
    invalid: list
    leaks: list
    seconds: float
    is_right: bool


def make_channels(admin, people, talk):
    ids = {name: person.call("GET", "/v1/auth/me")["user"]["id"] for name, person in people.items()}
    channels = {"general": admin.general()}
    for channel in talk.channels.values():
        if channel.name in channels:
            continue
        first, *others = channel.members
        form = {"name": channel.name, "private": channel.is_private}
        made = people[first].call("POST", "/v1/channels", form)["id"]
        for name in others if channel.is_private else []:
            people[first].call("POST", f"/v1/channels/{made}/members", {"user_id": ids[name]})
        channels[channel.name] = made
    return channels


def load(talk):
    """Posts the talk in a new workspace, the threads of a part over several connections."""
    admin = Person("Founder", "founder@example.org")
    people = admin.workspace("Cargo bikes", talk.people)
    channels = make_channels(admin, people, talk)
    facts = {}
    own = threading.local()

    def post_thread(thread):
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(HOST)
        started = None
        for said in thread.posts:
            person = people[said.author].over(own.connection)
            started, message = post(person, channels[thread.channel], started, said.text)
            if said.fact is not None:
                facts[said.fact] = message

    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        for part in talk.parts:
            list(pool.map(post_thread, part))
    return Loaded(people, channels, facts)


def ask(person, channel, question):
    """Returns the status of the task, and the reply, if there is one."""
    made = person.call("POST", f"/v1/channels/{channel}/threads", {"content": f"@vibe {question}"})
    task = made["tasks"][0]["id"]
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while (found := person.call("GET", f"/v1/tasks/{task}"))["status"] in ("queued", "running"):
        if time.monotonic() > deadline:
            return "late", None
        time.sleep(POLL_SECONDS)
    reply = found.get("reply_message_id")
    return found["status"], person.call("GET", f"/v1/messages/{reply}") if reply else None


def open_sources(person, reply):
    """The cited messages, and faults of the citations."""
    sources = reply["metadata"].get("sources") or []
    cited, invalid = [], []
    for source in sources:
        status, data = person.send("GET", f"/v1/messages/{source['message_id']}")
        message = json.loads(data) if status == 200 else {}
        if all(message.get(field) == source[field] for field in ("thread_id", "fork_id", "channel_id")):
            cited.append(message)
        else:
            invalid.append(f"source {source['n']}: status {status}")
    listed = {source["n"] for source in sources}
    shown = {int(n) for n in re.findall(r"(?<!\\)\[(\d{1,3})\]", reply["content"])}
    invalid += [f"[{n}] without a source" for n in sorted(shown - listed)]
    invalid += [f"source {n} without [{n}]" for n in sorted(listed - shown)]
    return cited, invalid


def leaks_in(texts, question, private):
    """Texts, given with their origins, that contain private text: its parts."""
    hidden = question.fact.hidden if question.is_hidden else []
    found = []
    for origin, text in texts:
        parts = [part for part in hidden if part in text.lower()]
        # Words on both sides of a line break are not a text.
        parts += [part for line in text.splitlines() for part in private.found(line, question.place)]
        if parts:
            found.append(f"{origin}: {' · '.join(parts)}")
    return found


def answer(question, loaded, connection, requests, private):
    person = loaded.people[question.asker].over(connection)
    before, started = len(requests), time.monotonic()
    status, reply = ask(person, loaded.channels[question.place], question.fact.question)
    seconds = time.monotonic() - started
    cited, invalid = open_sources(person, reply) if reply else ([], [])
    text = reply["content"] if reply else ""
    texts = [("reply", text), *(("request", sent) for sent in requests[before:])]
    names = {channel: name for name, channel in loaded.channels.items()}
    texts += [("source", f"#{names[message['channel_id']]} {message['content']}") for message in cited]
    leaks = leaks_in(texts, question, private)
    if question.is_hidden:
        is_right = bool(reply) and not reply["metadata"].get("sources") and not leaks
    else:
        is_right = any(message["id"] == loaded.facts[question.fact.number] for message in cited)
    return Answer(question, status, text, cited, invalid, leaks, seconds, is_right)


def measure(binary, data, talk, loaded, private, name):
    """Asks all questions on a copy of the data."""
    reader = Reader()
    settings = dict(NO_MODEL)
    server = None
    if name == "model":
        server, settings["OPENVIBE_MODEL_BASE_URL"] = model.start(reader.answer)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(data, copy, dirs_exist_ok=True)
        with running(binary, copy, **settings):
            connection = http.client.HTTPConnection(HOST)
            answers = [answer(question, loaded, connection, reader.requests, private) for question in talk.questions]
    if server:
        server.shutdown()
    return answers


def print_table(runs):
    kinds = [
        ("all", lambda question: True),
        ("in other words", lambda question: question.fact.paraphrased),
        ("a value that replaced another", lambda question: bool(question.fact.old)),
        ("in German", lambda question: question.language == "de"),
        ("of a private channel, asked there", lambda question: question.fact.asked_in == "inside"),
        ("of a private channel, asked elsewhere", lambda question: question.is_hidden),
    ]
    names = [f"{name} (target {TARGETS[name]})" for name in runs]
    print(f"| right source | questions | {' | '.join(names)} |")
    print("| --- | --: |" + " --: |" * len(runs))
    for title, is_kind in kinds:
        chosen = [[given for given in answers if is_kind(given.question)] for answers in runs.values()]
        if not chosen[0]:
            continue
        shares = [sum(given.is_right for given in answers) / len(answers) for answers in chosen]
        print(f"| {title} | {len(chosen[0])} | " + " | ".join(f"{share:.2f}" for share in shares) + " |")
    rows = [
        ("invalid links", lambda answers: sum(len(given.invalid) for given in answers)),
        ("leaks", lambda answers: sum(len(given.leaks) for given in answers)),
        ("messages cited by an answer", lambda answers: f"{statistics.mean(len(given.cited) for given in answers):.1f}"),
        ("time to an answer, median", lambda answers: f"{statistics.median(given.seconds for given in answers) * 1000:.0f} ms"),
    ]
    for title, value in rows:
        print(f"| {title} | | " + " | ".join(str(value(answers)) for answers in runs.values()) + " |")


def print_leaks(runs):
    for name, answers in runs.items():
        for given in answers:
            for leak in given.leaks:
                print(f"LEAK ({name}) in #{given.question.place}, “{given.question.fact.question}”: {leak}", file=sys.stderr)
    if any(given.leaks for answers in runs.values() for given in answers):
        print("PRIVATE TEXT LEAKED: see above.", file=sys.stderr)


def write_misses(path, runs):
    with open(path, "w") as file:
        for name, answers in runs.items():
            for given in answers:
                if given.is_right and not given.invalid and not given.leaks:
                    continue
                question = given.question
                miss = {
                    "run": name, "asked_in": question.place, "by": question.asker, "question": question.fact.question,
                    "channel": question.fact.channel, "fact": question.fact.fact, "is_hidden": question.is_hidden, "status": given.status,
                    "answer": given.text, "cited": [message["content"] for message in given.cited], "invalid": given.invalid,
                    "leaks": given.leaks,
                }
                file.write(json.dumps(miss, ensure_ascii=False) + "\n")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--misses", metavar="FILE")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--offline", action="store_const", const="offline", dest="only", help="only without a model")
    only.add_argument("--model", action="store_const", const="model", dest="only", help="only with the scripted model")
    return parser.parse_args()


def main():
    chosen = options()
    binary = os.environ.get("OPENVIBE_BIN", "target/release/openvibe")
    talk = generate(chosen.seed, chosen.messages, chosen.questions)
    private = PrivateText(talk)
    with tempfile.TemporaryDirectory() as data:
        started = time.monotonic()
        with running(binary, data, **NO_MODEL):
            loaded = load(talk)
        count = sum(len(thread.posts) for thread in talk.threads())
        print(f"{count} messages posted in {time.monotonic() - started:.0f} s", file=sys.stderr)
        names = [chosen.only] if chosen.only else list(TARGETS)
        runs = {name: measure(binary, data, talk, loaded, private, name) for name in names}
    print_table(runs)
    print_leaks(runs)
    if chosen.misses:
        write_misses(chosen.misses, runs)


main()
