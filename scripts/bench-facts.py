#!/usr/bin/env python3
"""Measure the memories that passes without a model make from labeled threads.

    scripts/bench-facts.py tests/facts [target/release/openvibe] [--list]

A thread is a file `NAME.json`: {"title", "messages": [{"id", "author", "kind": "person" or "agent", "text"}], "facts": [{"text",
"sources": [id], "values": [text], "superseded": [text]}], "never": [{"text", "message": id}]}. Messages of agents are left out.
A fact is found if an active memory has one of its sources and its values (agents also see the author), and does not state
a superseded value. `--list` also
prints each memory, for people who judge them. The summary of a thread states a fact if one of its lines has all values.
"""

import json
import pathlib
import re
import sys
import time

from bench_server import founder, post

# Number of messages at the end that passes leave out.
KEPT = 10


def normal(text):
    return " " + re.sub(r"[^\w.:@/-]+", " ", text.lower()).strip() + " "


def has(text, value):
    return re.search(rf"(?<!\w){re.escape(normal(value).strip())}(?!\w)", normal(text)) is not None


def memories(admin, number, sample):
    """Posts a thread, and compacts it. Returns its memories as (text, kind, IDs of sources in the sample, authors), and its summary."""
    spoken = [message for message in sample["messages"] if message["kind"] == "person"]
    people = admin.workspace(f"Thread {number}", sorted({message["author"] for message in spoken}))
    first = next(iter(people.values()))
    general, thread, ids = first.general(), None, {}
    for message in spoken:
        thread, posted = post(people[message["author"]], general, thread, message["text"])
        ids[posted] = message["id"]
    for _ in range(KEPT):
        post(first, general, thread, "👍")
    task = first.call("POST", f"/v1/threads/{thread}/compactions", {"keep": KEPT})["task"]["id"]
    while (state := first.call("GET", f"/v1/tasks/{task}")["status"]) not in ("completed", "failed", "canceled"):
        time.sleep(0.1)
    if state != "completed":
        sys.exit(f"the pass over thread {number} {state}")
    listed, cursor = [], ""
    while cursor is not None:
        page = first.call("GET", f"/v1/memories?thread_id={thread}&status=active&limit=100{cursor}")
        listed += page["data"]
        cursor = f"&cursor={page['next_cursor']}" if page.get("next_cursor") else None
    authors = {message["id"]: message["author"] for message in spoken}
    found = []
    for memory in listed:
        sources = [ids[source] for source in memory["source_message_ids"]]
        found.append((memory["text"], memory["kind"], sources, sorted({authors[source] for source in sources})))
    records = first.call("GET", f"/v1/threads/{thread}/compactions")["data"]
    return found, "\n".join(record["summary_markdown"] for record in records)


def states(memory, fact):
    text, _, sources, authors = memory
    shown = " ".join([text, *authors])
    return bool(set(sources) & set(fact["sources"])) and all(has(shown, value) for value in fact["values"])


def is_old(memory, fact):
    text = memory[0]
    told = any(has(text, value) for value in fact["superseded"])
    return told and not all(has(text, value) for value in fact["values"])


def main():
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    if not names:
        sys.exit(__doc__)
    binary = names[1] if len(names) > 1 else "target/release/openvibe"
    facts = found = made = of_facts = of_traps = old = summarized = quoted = 0
    with founder(binary) as admin:
        for number, path in enumerate(sorted(pathlib.Path(names[0]).glob("*.json"))):
            sample = json.loads(path.read_text())
            all_memories, summary = memories(admin, number, sample)
            traps = {trap["message"] for trap in sample["never"]}
            texts = [message["text"] for message in sample["messages"] if message["id"] in traps]
            quoted += sum(has(summary, text) for text in texts)
            summarized += sum(any(all(has(line, value) for value in fact["values"]) for line in summary.splitlines()) for fact in sample["facts"])
            facts += len(sample["facts"])
            hits = [any(states(memory, fact) and not is_old(memory, fact) for memory in all_memories) for fact in sample["facts"]]
            found += sum(hits)
            made += len(all_memories)
            of_facts += sum(any(states(memory, fact) for fact in sample["facts"]) for memory in all_memories)
            of_traps += sum(any(source in traps for source in memory[2]) for memory in all_memories)
            old += sum(any(is_old(memory, fact) for fact in sample["facts"]) for memory in all_memories)
            if "--list" in sys.argv:
                print(f"# {path.stem}: {sum(hits)} of {len(hits)}")
                for memory in all_memories:
                    print(json.dumps(memory, ensure_ascii=False))
                for fact, hit in zip(sample["facts"], hits):
                    if not hit:
                        print("missed:", json.dumps(fact, ensure_ascii=False))
    print(f"facts found: {found} of {facts} ({found / facts:.2f})")
    print(f"memories: {made}; of a labeled fact {of_facts} ({of_facts / max(1, made):.2f}), of a trap {of_traps}, with a superseded value {old}")
    print(f"summaries: with the values of {summarized} facts, {quoted} traps quoted")


main()
