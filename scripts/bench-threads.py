#!/usr/bin/env python3
"""Measure how much of long threads agents get from summaries, and from what is retrieved for a question.

    OPENVIBE_BIN=target/release/openvibe scripts/bench-threads.py [--half dev] [--sets 01,05] [--every N] [--model] [--misses FILE]

Posts the labeled threads of one half (`tests/threads`) over HTTP, each in its own workspace, and asks an agent in it after the last message
(`--every N`: after every N messages), so that passes run: without a model, or with `--model` by a scripted model that knows the labels and
notes each message with one as it was written: an upper limit, not a model. Then a second server on the same data has a model that answers
anything. The question of each fact is posted to the agent in the thread, what the model was sent is read, and question and reply are deleted again.

A corrected fact counts as found with its newest value. A fact is found if one line of the summary, or one retrieved memory or message, has
all of its words; labels in front of the lines do not count. A corrected value is told as current if a line of the summary or a memory has the
words of the old fact, but not all of those of a newer one.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

from bench_server import HOST, Person, post, running

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
sys.path.append(str(TESTS / "fuzz"))
import model  # noqa: E402

# Messages that agents are always sent.
WINDOW = 50
WAIT_SECONDS_MAX = 120
ASKED_MAX = 5
# Number of threads that are processed at the same time.
AT_ONCE = 4
ITEM_CHARS_MAX = 240
# Number of messages that are near another one.
NEAR_MAX = 3
POLL_SECONDS = 0.05
NO_MODEL = {"OPENVIBE_MODEL_BASE_URL": "", "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""}
PASSES = {"OPENVIBE_COMPACTION_INTERVAL": "1s"}
NO_PASSES = {"OPENVIBE_COMPACTION_INTERVAL": "30d"}
KINDS = {"decision": 0.95, "number": 0.9, "url": 0.9, "path": 0.9}
SEGMENT = "You condense a part of a team's chat"
JUDGE = "You compare notes of a team's chat"
# Line of a message in a request for a segment, or of a note in one for a comparison.
HANDLE = re.compile(r"^\[([me]\d+) [^\]]*\]: (.*)$")
PAIR = re.compile(r"\b(e\d+) (e\d+)\b")
SUMMARY = re.compile(r"^Summary of \d+ earlier messages?, .*\(data, not instructions\):$")
SUMMARY_LINE = re.compile(r"^- \d{4}-\d\d-\d\d(?: (\w+))?(?: \([^)]*\))?: (.*)$")
RECALLED = re.compile(r"^- \([^)]*\) ")


def states(text, fact):
    """Whether a text has all words of a fact, as in tests/threads/README.md."""
    text = text.lower()
    return all(any(word.strip() in text for word in words.lower().split("|")) for words in fact["words"])


class Labels:
    """The facts of a thread."""

    def __init__(self, sample):
        self.facts = {fact["id"]: fact for fact in sample["facts"]}
        self.texts = {sample["messages"][fact["message"]]["text"]: fact for fact in sample["facts"]}

    def newer(self, fact):
        """The facts that correct a fact, the newest one last."""
        found = []
        while fact["superseded_by"]:
            fact = self.facts[fact["superseded_by"]]
            found.append(fact)
        return found

    def current(self, fact):
        return (self.newer(fact) or [fact])[-1]

    def told_as_current(self, text, fact):
        """Whether a text states a corrected fact without a newer one."""
        newer = self.newer(fact)
        return bool(newer) and states(text, fact) and not any(states(text, other) for other in newer)


class Noter:
    """A scripted model: notes each labeled message of a segment, unless its correction is in the segment, and knows corrected pairs."""

    def __init__(self, samples):
        self.labels = [Labels(sample) for sample in samples]
        self.calls = collections.Counter()

    def answer(self, request):
        system = "\n".join(str(m["content"]) for m in request["messages"] if m["role"] == "system")
        text = "\n".join(str(m["content"]) for m in request["messages"] if m["role"] == "user")
        if SEGMENT in system:
            self.calls["segment"] += 1
            return {"content": json.dumps(self.segment(text))}, "stop"
        if JUDGE in system:
            self.calls["comparison"] += 1
            return {"content": json.dumps(self.compared(text))}, "stop"
        self.calls["reply"] += 1
        return {"content": "Fine."}, "stop"

    def said(self, text):
        lines = [HANDLE.match(line) for line in text.splitlines()]
        return {line[1]: line[2] for line in lines if line}

    def segment(self, text):
        lines = self.said(text)
        labels = max(self.labels, key=lambda labels: sum(line in labels.texts for line in lines.values()))
        stated = {handle: labels.texts[line] for handle, line in lines.items() if line in labels.texts}
        ids = {fact["id"] for fact in stated.values()}
        items = []
        for handle, fact in stated.items():
            if not any(newer["id"] in ids for newer in labels.newer(fact)):
                kind = "decision" if fact["kind"] == "decision" else "fact"
                text = lines[handle][:ITEM_CHARS_MAX]
                items.append({"text": text, "kind": kind, "sources": [handle], "about": None, "for_agent": False})
        return {"gist": "", "items": items}

    def compared(self, text):
        notes = self.said(text)
        superseded = []
        for old, new in PAIR.findall(text.rpartition("Pairs: ")[2]):
            for labels in self.labels:
                old_fact, new_fact = (labels.texts.get(notes.get(handle)) for handle in (old, new))
                if old_fact and new_fact and new_fact in labels.newer(old_fact):
                    superseded.append([old, new])
        return {"superseded": superseded, "done": []}


@dataclasses.dataclass
class Posted:
    name: str
    sample: dict
    admin: Person
    people: dict
    thread: str
    # IDs of the messages, in order.
    messages: list
    # Texts of the records' lines.
    records: list
    segments: int
    covered: int


def ask(person, thread, text):
    """Asks the agent; returns the ID of the question and the ended task."""
    made = person.call("POST", f"/v1/threads/{thread}/messages", {"content": f"@vibe {text}"})
    task = made["tasks"][0]["id"]
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (found := person.call("GET", f"/v1/tasks/{task}"))["status"] in ("queued", "running"):
        if time.monotonic() > deadline:
            sys.exit(f"task {task} does not end")
        time.sleep(POLL_SECONDS)
    return made["message"]["id"], found


def delete(admin, question, task):
    for message in (task.get("reply_message_id"), question):
        if message:
            admin.call("DELETE", f"/v1/messages/{message}")


def compactions(admin, thread):
    """The records, once no pass is queued or running."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        tasks = [
            task
            for status in ("queued", "running")
            for task in admin.call("GET", f"/v1/tasks?thread_id={thread}&status={status}")["data"]
        ]
        if not tasks:
            return admin.call("GET", f"/v1/threads/{thread}/compactions")["data"]
        if time.monotonic() > deadline:
            sys.exit(f"tasks of thread {thread} do not end")
        time.sleep(POLL_SECONDS)


def compact(admin, person, thread, due):
    """Asks the agent, and waits until its passes have covered `due` messages."""
    for _ in range(ASKED_MAX):
        question, task = ask(person, thread, "can you help us later?")
        records = compactions(admin, thread)
        delete(admin, question, task)
        if sum(record["message_count"] for record in records) >= due:
            return records
        # The interval between two passes.
        time.sleep(1.2)
    print(f"thread {thread}: only {sum(r['message_count'] for r in records)} of {due} messages were compacted", file=sys.stderr)
    return records


def load(founder, path, every):
    """Posts a thread, and lets passes compact it."""
    sample = json.loads(path.read_text())
    # Founders are in one workspace at a time.
    admin = founder.over(http.client.HTTPConnection(HOST))
    admin.headers = dict(founder.headers)
    people = admin.workspace(path.stem, sample["people"])
    by_name = {name.split()[0]: person for name, person in people.items()}
    first = by_name[sample["messages"][0]["who"]]
    general = first.general()
    form = {"content": sample["messages"][0]["text"], "title": sample["title"]}
    made = first.call("POST", f"/v1/channels/{general}/threads", form)
    thread, messages = made["thread"]["id"], [made["message"]["id"]]
    for n, message in enumerate(sample["messages"][1:], start=2):
        _, posted = post(by_name[message["who"]], general, thread, message["text"])
        messages.append(posted)
        if every and n % every == 0 and n >= WINDOW + every and n < len(sample["messages"]):
            compact(admin, first, thread, 0)
            time.sleep(1.2)
    records = compact(admin, first, thread, len(messages) - WINDOW)
    lines = [SUMMARY_LINE.match(line) for record in records for line in record["summary_markdown"].splitlines()]
    texts = [line[2] for line in lines if line]
    covered = sum(record["message_count"] for record in records)
    print(f"{path.stem} posted", file=sys.stderr)
    return Posted(path.stem, sample, admin, people, thread, messages, texts, len(records), covered)


@dataclasses.dataclass
class Sent:
    """What the model was sent for a question."""

    # Kinds and texts.
    summary: list
    memories: list
    messages: list
    # IDs of the old messages, and of those that were sent whole.
    old: set
    window: set


def sent(person, task):
    context = person.call("GET", f"/v1/tasks/{task['id']}/context")
    summary, is_open = [], False
    for line in "\n".join(turn["content"] for turn in context["turns"]).splitlines():
        if SUMMARY.match(line):
            is_open = True
        elif is_open and (found := SUMMARY_LINE.match(line)):
            summary.append((found[1], found[2]))
        else:
            is_open = False
    used = context["memories"]
    texts = {part: [RECALLED.sub("", item["text"] or "") for item in used[part]] for part in ("used", "messages")}
    old = {item["message_id"] for item in used["messages"]}
    window = {message["message_id"] for message in context["messages"]} - old
    return Sent(summary, texts["used"], texts["messages"], old, window)


@dataclasses.dataclass
class Result:
    thread: str
    language: str
    fact: dict
    # Where the current fact is found: parts of the prompt.
    found: set
    in_record: bool
    # Parts of the prompt that state its old value as current.
    told: dict
    is_corrected_in_window: bool
    sent: Sent
    said: str
    # Number of messages after the nearest old message before it; `None` if none is that near.
    after: int | None
    # Position among the hits of a search for the question, from 1; `None` without a hit.
    rank: int | None

    @property
    def is_reached(self):
        return bool(self.found & {"summary", "memories", "messages"})


def rank_of(person, posted, question, message):
    """Position of a message among the hits of a search of its thread for any word of the question."""
    words = urllib.parse.quote(" ".join(re.findall(r"\w+", question)))
    hits = person.call("GET", f"/v1/search?match=any&limit=100&thread_id={posted.thread}&q={words}")["data"]
    return next((n for n, hit in enumerate(hits, start=1) if hit["id"] == message), None)


def question_of(posted, labels, fact):
    """Asks about a fact as somebody who did not state it."""
    sample = posted.sample
    author = sample["messages"][fact["message"]]["who"]
    name = next(name for name in sample["people"] if name.split()[0] != author)
    asker = posted.people[name]
    question, task = ask(asker, posted.thread, fact["question"])
    if task["status"] != "completed":
        sys.exit(f"the reply to “{fact['question']}” {task['status']}")
    shown = sent(asker, task)
    delete(posted.admin, question, task)
    current = labels.current(fact)
    parts = {"summary": [text for _, text in shown.summary], "memories": shown.memories, "messages": shown.messages}
    found = {part for part, texts in parts.items() if any(states(text, current) for text in texts)}
    is_sent = posted.messages[current["message"]] in shown.window
    if is_sent:
        found.add("window")
    told = {part: [text for text in texts if labels.told_as_current(text, fact)] for part, texts in parts.items()}
    told = {part: texts for part, texts in told.items() if texts}
    in_record = any(states(text, current) for text in posted.records)
    said = sample["messages"][current["message"]]["text"]
    is_corrected_in_window = bool(fact["superseded_by"]) and is_sent
    at = current["message"]
    after = next((n for n in range(1, NEAR_MAX + 1) if at >= n and posted.messages[at - n] in shown.old), None)
    rank = rank_of(asker, posted, fact["question"], posted.messages[at])
    return Result(posted.name, sample["language"], fact, found, in_record, told, is_corrected_in_window, shown, said, after, rank)


def measure(posted):
    for person in (posted.admin, *posted.people.values()):
        person.http = http.client.HTTPConnection(HOST)
    labels = Labels(posted.sample)
    results = [question_of(posted, labels, fact) for fact in posted.sample["facts"]]
    print(f"{posted.name} asked", file=sys.stderr)
    return results


def share(part, whole):
    return f"{part / whole:.2f}" if whole else "–"


def row(title, results, target):
    older = [result for result in results if "window" not in result.found]
    parts = {part: sum(part in result.found for result in older) for part in ("summary", "memories", "messages")}
    reached = sum(result.is_reached for result in older)
    shown = share(reached, len(older))
    if older and target and reached / len(older) < target:
        shown = f"**{shown}**"
    every = sum(bool(result.found) for result in results)
    cells = [
        title, len(older), target or "", shown, share(parts["summary"], len(older)), share(sum(result.in_record for result in older), len(older)),
        share(parts["memories"], len(older)), share(parts["messages"], len(older)), f"{share(every, len(results))} of {len(results)}",
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def print_tables(threads, results, calls):
    print("| facts | before the window | target | found | in the summary | in a record | memory | old message | found or in the window |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: |")
    for kind, target in KINDS.items():
        print(row(kind, [result for result in results if result.fact["kind"] == kind], target))
    print(row("numbers, URLs, and paths", [result for result in results if result.fact["kind"] != "decision"], 0.9))
    for language in sorted({result.language for result in results}):
        print(row(language, [result for result in results if result.language == language], None))
    for n, title in ((0, "asked in other words"), (1, "asked in one of its words"), (2, "asked in two or more of its words")):
        chosen = [result for result in results if min(2, shared_words(result)) == n]
        print(row(title, chosen, None))
    corrected = [result for result in results if result.fact["superseded_by"]]
    late = [result for result in corrected if result.is_corrected_in_window]
    early = [result for result in corrected if not result.is_corrected_in_window]
    print(f"\ncorrected facts: {len(corrected)}, of these corrected in the window {len(late)}")
    for title, chosen in (("corrected before the window", early), ("corrected in the window", late)):
        told = {part: sum(part in result.told for result in chosen) for part in ("summary", "memories", "messages")}
        found = sum(bool(result.found) for result in chosen)
        print(f"{title} ({len(chosen)}): newest value found or in the window {found}; old one told as current in the summary "
              f"{told['summary']}, in memories {told['memories']}; in old messages, with their dates {told['messages']}")
    segments, covered = sum(posted.segments for posted in threads), sum(posted.covered for posted in threads)
    print(f"threads {len(threads)}, messages {sum(len(posted.messages) for posted in threads)}, compacted {covered} in {segments} segments")
    sizes = [sum(len(text) for _, text in result.sent.summary) for result in results]
    print(f"summary: {sum(sizes) / len(sizes):.0f} characters in {sum(len(r.sent.summary) for r in results) / len(results):.0f} lines")
    if calls:
        print(f"utility calls: {calls['segment']} for segments, one for {covered / max(1, calls['segment']):.1f} compacted messages; "
              f"{calls['comparison']} comparisons")


def shared_words(result):
    """Number of words of at least four characters whose beginnings the question shares with the message."""
    words = [{word[:5] for word in re.findall(r"\w{4,}", text.lower())} for text in (result.fact["question"], result.said)]
    return len(words[0] & words[1])


def write_misses(path, results):
    with open(path, "w") as file:
        for result in results:
            if result.found and not result.told:
                continue
            miss = {
                "thread": result.thread, "fact": result.fact, "said": result.said, "found": sorted(result.found),
                "in_record": result.in_record, "told_as_current": result.told, "shared_words": shared_words(result),
                "after": result.after, "rank": result.rank,
                "memories": result.sent.memories, "messages": result.sent.messages,
            }
            file.write(json.dumps(miss, ensure_ascii=False) + "\n")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("dev", "held"), default="dev")
    parser.add_argument("--sets", help="only these numbers, with commas between them")
    parser.add_argument("--every", type=int, default=0, metavar="N")
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--misses", metavar="FILE")
    return parser.parse_args()


def chosen_sets(chosen, directory):
    subprocess.run([sys.executable, str(TESTS / "threads" / "make.py"), str(directory)], check=True)
    paths = [path for path in sorted(directory.glob("*.json")) if int(path.stem[:2]) % 2 == (chosen.half == "dev")]
    only = chosen.sets.split(",") if chosen.sets else None
    return [path for path in paths if only is None or path.stem[:2] in only]


@contextlib.contextmanager
def scripted(answer):
    server, url = model.start(answer)
    try:
        yield {**NO_MODEL, "OPENVIBE_MODEL_BASE_URL": url}
    finally:
        server.shutdown()


def main():
    chosen = options()
    binary = os.environ.get("OPENVIBE_BIN", "target/release/openvibe")
    with tempfile.TemporaryDirectory() as sets, tempfile.TemporaryDirectory() as data, contextlib.ExitStack() as stack:
        paths = chosen_sets(chosen, pathlib.Path(sets))
        noter = Noter([json.loads(path.read_text()) for path in paths]) if chosen.model else None
        settings = stack.enter_context(scripted(noter.answer)) if noter else NO_MODEL
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(AT_ONCE))
        with running(binary, data, **settings, **PASSES):
            founder = Person("Founder", "founder@example.org")
            threads = list(pool.map(lambda path: load(founder, path, chosen.every), paths))
        calls = dict(noter.calls) if noter else {}
        settings = stack.enter_context(scripted(lambda request: ({"content": "Fine."}, "stop")))
        with running(binary, data, **settings, **NO_PASSES):
            results = [result for results in pool.map(measure, threads) for result in results]
    print_tables(threads, results, collections.Counter(calls))
    if chosen.misses:
        write_misses(chosen.misses, results)


main()
