#!/usr/bin/env python3
"""Checks every fact scene of the stock, chosen or not: words, value, and question."""
import os, random, sys
import make, check

def main():
    out = []
    talks, packs = {}, []
    for fn in sorted(os.listdir(make.STOCK)):
        t = open(os.path.join(make.STOCK, fn), encoding="utf-8").read()
        if fn.startswith("talk-"):
            talks[fn[5:7]] = make.parse_talk(t)
        else:
            packs.append(make.parse_pack(t, fn[:-4]))
    for p in packs:
        n = {k: len(p[k]) for k in "DNUPF"}
        lines = sum(len(s.lines) for s in p["F"])
        print(p["name"], n, "filler lines", lines, "corrections", sum(1 for k in "DN" for s in p[k] if s.corr))
        for k in "DNUP":
            for s in p[k]:
                for base in range(6):
                    c = make.Composer(p, talks[p["lang"]], 0, p["side"], random.Random(base))
                    c.basev = base
                    c.first = [x for x in talks[p["lang"]]["first"][:6]]
                    c.styles = {w: "plain" for w in c.first}
                    env, old, q0 = {}, None, None
                    for sc in (s, s.corr):
                        if sc is None:
                            continue
                        stars = [l for l in sc.lines if l[1]]
                        if len(stars) != 1:
                            out.append((p["name"], "stars %d" % len(stars), sc.head))
                            break
                        v, w, q = c.fact(sc, env)
                        c.count = {}
                        t = [x for x in c.render(sc, "f", env, old, v) if x[2]][0][1]
                        for x in w:
                            if not check.has(t, x):
                                out.append((p["name"], "word", x, t))
                        if v and not check.exact(v, t):
                            out.append((p["name"], "value", v, t))
                        if v and check.exact(v, q):
                            out.append((p["name"], "in question", v, q))
                        if not v and all(check.has(q, x) for x in w):
                            out.append((p["name"], "told", w, q))
                        if not q.endswith("?"):
                            out.append((p["name"], "question", q))
                        if old is not None and v == old:
                            out.append((p["name"], "same", v))
                        if q == q0:
                            out.append((p["name"], "same q", q))
                        if sc is s.corr and not v and all(check.has(t0, x) for x in w):
                            out.append((p["name"], "not apart", w, t0))
                        old, q0, t0 = v, q, t
    seen = set()
    for o in out:
        k = (o[0], o[1], str(o[-1])[:40]) if o[1] != "word" else (o[0], o[2])
        if k not in seen:
            seen.add(k)
            print(*o, sep=" | ")
    return 1 if out else 0

if __name__ == "__main__":
    sys.exit(main())
