#!/usr/bin/env python3
"""Measure `GET /v1/search?match=any` on the questions of LoCoMo (github.com/snap-research/locomo).

    scripts/bench-locomo.py locomo10.json [target/release/openvibe]

Each conversation is a workspace, each session a thread, and each turn a message by a person with the speaker's name;
captions of pictures are part of the text. A question counts if it names its evidence. Prints how often the thread or
the message with evidence is among the first hits, beside the same for `bm25` of SQLite's FTS5 with Porter stems.
"""

import json
import re
import sqlite3
import sys
import urllib.parse

from bench_server import founder, post

STOP = set(
    "a an and are as at be been by did do does for from had has have he her his how i in is it of on or she that the "
    "their they this to was were what when where which who why with you".split()
)


class Scores:
    def __init__(self):
        self.n = self.first = self.five = self.rank = self.ten = 0.0

    def add(self, threads, messages, evidence):
        sessions = {e.split(":")[0] for e in evidence}
        place = next((n for n, thread in enumerate(threads) if thread in sessions), None)
        self.n += 1
        if place is not None:
            self.first += place == 0
            self.five += place < 5
            self.rank += 1 / (place + 1)
        self.ten += any(message in evidence for message in messages[:10])

    def __str__(self):
        parts = [("thread hit@1", self.first), ("hit@5", self.five), ("MRR", self.rank), ("message hit@10", self.ten)]
        return ", ".join(f"{name} {value / self.n:.3f}" for name, value in parts) + f" ({self.n:.0f} questions)"


def conversations(path):
    for conversation in json.load(open(path)):
        turns = conversation.get("conversation", conversation)
        sessions = []
        for n in range(1, 100):
            session = turns.get(f"session_{n}")
            if isinstance(session, list) and session:
                sessions.append(session)
        yield turns["speaker_a"], turns["speaker_b"], sessions, conversation["qa"]


def text_of(turn):
    return " ".join(filter(None, [turn.get("text"), turn.get("blip_caption")])) or "…"


def evidence_of(question):
    parts = [part for text in question.get("evidence") or [] for part in re.split("[;, ]", text)]
    return {part for part in parts if re.fullmatch(r"D\d+:\d+", part)}


def measure(admin, number, conversation, ours, bare):
    name_a, name_b, sessions, questions = conversation
    people = admin.workspace(f"Conversation {number}", [name_a, name_b])
    reader = people[name_a]
    general = reader.general()
    table = sqlite3.connect(":memory:")
    table.execute("create virtual table t using fts5(x, tokenize = 'porter')")
    turns = {}
    rows = []
    for session in sessions:
        thread = None
        for turn in session:
            thread, message = post(people[turn["speaker"]], general, thread, text_of(turn))
            turns[message] = turn["dia_id"]
            rows.append(turn["dia_id"])
            table.execute("insert into t values (?)", (f"{turn['speaker']} {text_of(turn)}",))
    for question in questions:
        evidence = evidence_of(question)
        if not evidence:
            continue
        query = urllib.parse.quote(question["question"])
        search = lambda more: reader.call("GET", f"/v1/search?match=any&q={query}&{more}")["data"]
        messages = [turns[hit["id"]] for hit in search("limit=10")]
        threads = [turns[hit["id"]].split(":")[0] for hit in search("group=thread&limit=50")]
        ours.add(threads, messages, evidence)
        words = [word for word in re.findall(r"\w+", question["question"].lower()) if word not in STOP]
        match = " OR ".join(f'"{word}"' for word in words)
        found = table.execute("select rowid from t where t match ? order by rank", (match,))
        messages = [rows[row - 1] for (row,) in found]
        bare.add(list(dict.fromkeys(message.split(":")[0] for message in messages)), messages, evidence)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary = sys.argv[2] if len(sys.argv) > 2 else "target/release/openvibe"
    ours, bare = Scores(), Scores()
    with founder(binary) as admin:
        for number, conversation in enumerate(conversations(sys.argv[1])):
            measure(admin, number, conversation, ours, bare)
    print(f"match=any: {ours}\nbare FTS5: {bare}")


main()
