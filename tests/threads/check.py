#!/usr/bin/env python3
"""Checks the threads of sets/ and prints counts. Standard library only."""
import collections, glob, json, os, re, sys

HERE = os.path.dirname(os.path.abspath(__file__))


def has(text, alts):
    t = text.lower()
    return any(a.strip() in t for a in alts.lower().split("|"))


def exact(value, text):
    """the value occurs as a whole, not inside a longer number or word"""
    return re.search(r"(?<![\w.,])%s(?![\w]|[.,]\d)" % re.escape(value.lower()), text.lower()) is not None


def check(th):
    e = []
    ms, fs = th["messages"], th["facts"]
    if len(ms) != 300:
        e.append("%d messages" % len(ms))
    first = [p.split()[0] for p in th["people"]]
    if not 3 <= len(first) <= 6 or len(set(first)) != len(first):
        e.append("people")
    for m in ms:
        if m["who"] not in first:
            e.append("unknown speaker")
        if not m["text"].strip() or re.search(r"[{}~]|\[\w*[=|]", m["text"]) or "  " in m["text"]:
            e.append("text: %r" % m["text"])
    cnt = collections.Counter(re.sub(r"[\W_]+$", "", m["text"].lower()) or m["text"] for m in ms)
    e += ["repeated %d: %r" % (n, t) for t, n in cnt.items() if n > 2]
    ids = {f["id"]: f for f in fs}
    if len(ids) != len(fs):
        e.append("ids")
    k = collections.Counter(f["kind"] for f in fs)
    for kind, lo, hi in (("decision", 6, 9), ("number", 8, 12), ("url", 3, 5), ("path", 3, 5)):
        if not lo <= k[kind] <= hi:
            e.append("%d %s" % (k[kind], kind))
    old = [f for f in fs if f["superseded_by"]]
    if not 2 <= len(old) <= 4:
        e.append("%d corrected" % len(old))
    newids = {f["superseded_by"] for f in old}
    qs = collections.Counter(f["question"].lower() for f in fs)
    e += ["same question: " + q for q, n in qs.items() if n > 1]
    vals = collections.Counter(f["value"] for f in fs if f["value"])
    e += ["same value: " + v for v, n in vals.items() if n > 1]
    wd = collections.Counter(tuple(f["words"]) for f in fs)
    e += ["same words: %s" % (w,) for w, n in wd.items() if n > 1]
    stated = {f["message"] for f in fs}
    if len(stated) != len(fs):
        e.append("two facts in one message")
    for f in fs:
        t = ms[f["message"]]["text"]
        if not f["words"]:
            e.append("no words: %s" % f["question"])
        for w in f["words"]:
            if not has(t, w):
                e.append("word %r not in %r" % (w, t))
        if f["kind"] != "decision":
            if not f["value"] or not exact(f["value"], t):
                e.append("value %r not in %r" % (f["value"], t))
            elif exact(f["value"], f["question"]):
                e.append("value in question: " + f["question"])
            if f["kind"] == "number":
                num = re.search(r"\d[\d.,: ]*\d|\d", f["value"]).group(0)
                if exact(num, f["question"]):
                    e.append("number in question: " + f["question"])
            # elsewhere in the thread only near the statement or near its correction
            ok = list(range(f["message"] - 6, f["message"] + 7))
            if f["superseded_by"]:
                n = ids[f["superseded_by"]]["message"]
                ok += list(range(n - 6, n + 7))
            for i, m in enumerate(ms):
                if i not in ok and exact(f["value"], m["text"]):
                    e.append("value %r also in message %d: %r" % (f["value"], i, m["text"]))
        else:
            if f["value"]:
                e.append("decision with a value")
            if all(has(f["question"], w) for w in f["words"]):
                e.append("question tells the decision: %s %s" % (f["words"], f["question"]))
            # assent nearby: somebody else speaks within the next three lines
            if not any(ms[i]["who"] != ms[f["message"]]["who"] for i in range(max(0, f["message"] - 3), min(300, f["message"] + 4))):
                e.append("no one else near a decision")
        if f["superseded_by"]:
            n = ids.get(f["superseded_by"])
            if n is None or n["kind"] != f["kind"] or n["message"] <= f["message"]:
                e.append("corrected pair: %s" % f["id"])
            elif f["kind"] != "decision" and n["value"] == f["value"]:
                e.append("correction with the same value")
            elif n["message"] - f["message"] < 8:
                e.append("correction too close")
            elif f["kind"] == "decision" and all(has(ms[f["message"]]["text"], w) for w in n["words"]):
                e.append("corrected decision is not told apart: %s" % n["words"])
    return e


def main():
    tot, langs, topics, bad, cor, quick = collections.Counter(), collections.Counter(), {}, 0, 0, collections.Counter()
    seen = {}
    for fn in sorted(glob.glob(os.path.join(HERE, "sets", "*.json"))):
        th = json.load(open(fn, encoding="utf-8"))
        e = check(th)
        nn = int(os.path.basename(fn)[:2])
        if (nn % 2 == 1) != (th["half"] == "dev"):
            e.append("half")
        if th["language"] != os.path.basename(fn)[3:5]:
            e.append("language")
        for x in e:
            print(os.path.basename(fn), x)
        bad += len(e)
        langs[th["language"]] += 1
        half = th["half"]
        topics.setdefault(half, set()).add(th["topic"])
        for f in th["facts"]:
            tot[f["kind"]] += 1
            tot[half + " " + f["kind"]] += 1
            cor += bool(f["superseded_by"])
            tot[half + " corrected"] += bool(f["superseded_by"])
        tot["messages"] += len(th["messages"])
        tot["distinct texts"] += len({m["text"] for m in th["messages"]})
    print("threads", sum(langs.values()), dict(langs))
    print("topics", {k: len(v) for k, v in topics.items()}, "shared", len(topics.get("dev", set()) & topics.get("held", set())))
    print("corrected", cor)
    for k in sorted(tot):
        print(k, tot[k])
    print("errors", bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
