#!/usr/bin/env python3
"""Builds NN-LANG.json (50 threads of 300 messages) from stock/*.txt in sets/, or in the directory of its argument.

Standard library only, fixed seed. See README.md for the stock notation.
"""
import json, os, random, re, sys

HERE = os.path.dirname(os.path.abspath(__file__))
STOCK = os.path.join(HERE, "stock")
OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "sets")
SEED = 20261125
SIZE = 300
PLAN = ["en"] * 14 + ["de"] * 5 + ["fr"] * 3 + ["es"] * 3
# a line that starts like a question gets no full stop
ASKS = re.compile(r"(ok |so |and |und |et |y )?(who|what|where|when|why|how|which|is|are|am|do|does|did|can|could|should|would|will|shall|has|have|had|any|anyone|anybody|"
                  r"wer|was|wo|wann|warum|wieso|wie|welch\w*|ist|sind|hat|haben|habt|kann|können|könnt|soll\w*|darf|dürfen|gibt|weiß|"
                  r"qui|que|quoi|où|quand|pourquoi|comment|quel\w*|est-ce|on a|c'est quoi|"
                  r"quién|qué|dónde|cuándo|por qué|cómo|cuál|cuánt\w*|alguien|hay|podemos|puede\w*)\b", re.I)
KIND = {"D": "decision", "N": "number", "U": "url", "P": "path"}


class Scene:
    def __init__(self, kind, head=""):
        self.kind, self.head, self.lines, self.corr, self.turn = kind, head, [], None, None


def parse_lines(block):
    out = []
    for ln in block:
        m = re.match(r"(\*?)([A-E]): ?(.*)$", ln)
        if not m:
            raise SystemExit("bad line: %r" % ln)
        out.append((m.group(2), bool(m.group(1)), m.group(3)))
    return out


def parse_pack(text, name):
    p = {"name": name, "D": [], "N": [], "U": [], "P": [], "F": [], "vocab": {}}
    cur = last = None
    for ln in text.splitlines():
        ln = ln.rstrip()
        if not ln:
            if cur is not None and cur.kind == "F" and cur.lines:
                cur = None
            continue
        m = re.match(r"(lang|side|titles|things|places|tasks|whos|troubles)= ?(.*)$", ln)
        if m:
            k, v = m.groups()
            if k in ("lang", "side"):
                p[k] = v
            elif k == "titles":
                p[k] = [x.strip() for x in v.split(";")]
            else:
                p["vocab"][k] = [x.strip() for x in v.split(";") if x.strip()]
            continue
        m = re.match(r"([DNUPC]) (.*)$", ln)
        if m:
            k, head = m.groups()
            s = Scene(last.kind if k == "C" else k, head)
            if k == "C":
                last.corr = s
            else:
                p[k].append(s)
            last = cur = s
            continue
        if ln == "F":
            cur = None
            continue
        if cur is None:
            cur = Scene("F")
            p["F"].append(cur)
        cur.lines += parse_lines([ln])
    p["F"] = [s for s in p["F"] if s.lines]
    return p


def parse_talk(text):
    """Sections [name]; list sections hold one entry a line, scene sections blocks."""
    t, sec = {}, None
    for ln in text.splitlines():
        ln = ln.rstrip()
        m = re.match(r"\[\[(\w+)\]\]$", ln)
        if m:
            sec = m.group(1)
            t[sec] = []
            new = True
            continue
        if sec is None:
            continue
        if sec in ("yes", "ack", "first", "last"):
            if ln:
                t[sec].append(ln)
        else:
            if not ln:
                new = True
                continue
            if new:
                t[sec].append(Scene("F"))
                new = False
            t[sec][-1].lines += parse_lines([ln])
    return t


NUMBERS = {
    "en": "one two three four five six seven eight nine ten eleven twelve",
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze",
    "es": "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
}


# stems of the months in the four languages
MONTHS = ["jan", "feb", "mar mär mars", "apr abr avr", "may mai mayo", "jun juin", "jul juil", "aug agosto août",
          "sep", "oct okt", "nov", "dec dez dic déc"]


def digits(w, lang):
    """a number word may be reported with a digit"""
    alts = w.split("|")
    for a in list(alts):
        for i, n in enumerate(NUMBERS[lang].split(), 1):
            b = re.sub(r"\b%s\b" % n, str(i), a)
            if b != a and b not in alts:
                alts.append(b)
    return "|".join(alts)


class Reroll(Exception):
    pass


class Composer:
    def __init__(self, pack, talk, use, side, rng):
        self.p, self.t, self.use, self.side, self.r = pack, talk, use, side, rng
        self.count = {}
        self.tused = {}

    # ---- small helpers
    def share(self, lst):
        """dev and held see different (overlapping by a third) parts of the shared stock"""
        keep = (0, 1) if self.side == "dev" else (0, 2)
        return [x for i, x in enumerate(lst) if i % 3 in keep]

    def slots(self, s, env):
        def rep(m):
            body = m.group(1)
            nm = None
            mm = re.match(r"(\w+)=(.*)$", body)
            if mm:
                nm, body = mm.groups()
                if nm in env:
                    return env[nm]
            elif body in env:
                return env[body]
            elif "|" not in body and ".." not in body:
                return m.group(0)
            mm = re.match(r"(\d+)\.\.(\d+)$", body)
            if mm:
                a, b = int(mm.group(1)), int(mm.group(2))
                opts = [str(x) for x in range(a, b + 1)]
            else:
                opts = body.split("|")
            v = opts[(self.base + self.use + self.r.choice([0, 0, 2])) % len(opts)] if len(opts) > 2 else opts[(self.base + self.use) % len(opts)]
            if nm:
                env[nm] = v
            return v
        return re.sub(r"\[([^\[\]]+)\]", rep, s)

    def limit(self, text):
        k = re.sub(r"[\W_]+$", "", text.lower()).strip() or text
        if self.count.get(k, 0) >= 2:
            return False
        self.count[k] = self.count.get(k, 0) + 1
        return True

    def draw(self, sec):
        pool = self.share(self.t[sec])
        for _ in range(200):
            x = self.r.choice(pool)
            if self.limit(x):
                return x
        raise Reroll("pool %s is used up" % sec)

    def roles(self):
        ppl = self.first[:]
        self.r.shuffle(ppl)
        d = {}
        for i, k in enumerate("ABCDE"):
            d[k] = ppl[i] if i < len(ppl) else ppl[1 + i % (len(ppl) - 1)]
        return d

    def style(self, who, text, guard):
        st = self.styles[who]
        head = text.split(" ")[0]
        if st == "proper":
            if re.match(r"^[^\W\d_]+[,']?[^\W\d_]*[,!?]?$", head) and not (guard and text.startswith(guard)) and head not in ("pH",):
                text = text[0].upper() + text[1:]
            elif text[0] in "¿¡" and len(text) > 1:
                text = text[0] + text[1].upper() + text[2:]
            lastw = text.split(" ")[-1]
            if len(text.split()) > 3 and self.r.random() < 0.5 and not ASKS.match(text) and re.search(r"[^\W_]$", text) and not re.search(r"[/_.]", lastw) and not (guard and text.endswith(guard)):
                text += "."
        if guard is None and self.r.random() < 0.03:
            ws = text.split(" ")
            idx = [i for i, w in enumerate(ws) if len(w) > 5 and w.isalpha() and w.islower()]
            if idx:
                i = self.r.choice(idx)
                w = ws[i]
                j = self.r.randrange(1, len(w) - 2)
                ws[i] = w[:j] + w[j + 1] + w[j] + w[j + 2:]
                text = " ".join(ws)
        return text

    # ---- scenes
    def render(self, s, fid=None, env=None, old=None, value=None):
        d = self.roles()
        out = []
        env = env if env is not None else {}
        self.base = self.basev
        for role, star, text in s.lines:
            who = d[role]
            if text in ("~y", "~a"):
                text = self.draw("yes" if text == "~y" else "ack")
            elif s.kind != "F" and not star and len(text.split()) <= 2 and "{" not in text and "[" not in text:
                if not self.limit(text):
                    text = self.draw("yes" if s.kind == "D" else "ack")
            text = self.slots(text, env)
            text = self.vocab(text)
            if value is not None:
                text = text.replace("{v}", value)
            if old is not None:
                text = text.replace("{old}", old)
            for k in "ABCDE":
                text = text.replace("{%s}" % k, d[k])
            if "{" in text:
                raise SystemExit("slot left: %r in %s" % (text, self.p["name"]))
            text = self.style(who, text, value if value and value in text else ("" if star else None))
            out.append([who, text, fid if star else None])
        return out

    def vocab(self, text):
        def rep(m):
            k = m.group(1) + "s"
            lst = self.p["vocab"][k]
            return self.pick(k, lst)
        return re.sub(r"\{(thing|place|task|who|trouble)\}", rep, text)

    def pick(self, k, lst):
        # least used first, so that the vocabulary is spread over the thread
        low = min(self.tused.get((k, x), 0) for x in lst)
        x = self.r.choice([x for x in lst if self.tused.get((k, x), 0) <= low + (1 if self.r.random() < .2 else 0)])
        self.tused[(k, x)] = self.tused.get((k, x), 0) + 1
        return x

    def fact(self, s, env, old=None):
        """labels of a fact scene"""
        self.base = self.basev
        f = [x.strip() for x in s.head.split(";")]
        value = None
        if s.kind == "D":
            words, q = f
        elif s.kind == "N":
            value, words, q = f
        else:
            value, q = f
            words = ""
        if value:
            value = self.slots(value, env)
        words = [self.slots(w.strip(), env).lower() for w in self.split(words)]
        q = self.slots(q, env)
        if s.kind == "D":
            words = [digits(w, self.p["lang"]) for w in words]
        if s.kind == "U":
            words = [re.sub(r"^https?://", "", value).lower()]
        elif s.kind == "P":
            words = [value.lower()]
        elif s.kind == "N":
            m = re.search(r"\d[\d.,: ]*\d|\d", value)
            num = m.group(0)
            flat = re.sub(r"[ ,.]", "", num) if re.fullmatch(r"\d{1,3}([ .,]\d{3})+", num) else num
            alts = [num] + ([flat] if flat != num else [])
            if flat != num:
                for sep in (",", ".", " "):
                    g = re.sub(r"(?<=\d)(?=(\d{3})+$)", sep, flat)
                    if g not in alts:
                        alts.append(g)
            elif re.fullmatch(r"\d+[.,]\d{1,2}", num):
                alts.append(num.translate(str.maketrans(".,", ",.")))
            elif re.fullmatch(r"\d{4,}", num):
                for sep in (",", ".", " "):
                    alts.append(re.sub(r"(?<=\d)(?=(\d{3})+$)", sep, num))
            if len(num) == 1:
                # a single digit identifies nothing, so the unit is added
                unit = value.lower().split(num, 1)[1].strip()
                v = value.lower()
                if unit in ("%", "percent"):
                    alts = [num + x for x in (" %", "%", " percent", " per cent", " prozent")]
                elif v[0] in "€$£":
                    alts = [v, num + " " + v[0], num + v[0], num + " euro"]
                elif unit.startswith("."):
                    alts = [v, v.replace(" ", "")]
                elif not unit:
                    alts = [v, num + " " + v.split()[0], num + " " + v[:3], v[:3] + " " + num]
                else:
                    alts = [v, num + unit] + ([num + " " + unit[:3]] if len(unit) > 3 and unit[:3] != "de " else [])
            words.append("|".join(dict.fromkeys(a.strip() for a in alts)))
            for i, names in enumerate(MONTHS, 1):
                stem = [m for m in names.split() if re.search(r"\b" + m, value.lower())]
                if stem and re.fullmatch(r"\d{1,2}\.? (de )?[^\W\d]+|[^\W\d]+ \d{1,2}", value) and not value.endswith("mails"):
                    words.append("|".join(dict.fromkeys([stem[0], ".%d" % i, ".%02d" % i, "/%d" % i, "/%02d" % i, "-%02d" % i, "%02d-" % i, "%d/" % i])))
                    break
        return value, words, q

    @staticmethod
    def split(s):
        out, depth, cur = [], 0, ""
        for ch in s:
            depth += ch == "["
            depth -= ch == "]"
            if ch == "," and not depth:
                out.append(cur)
                cur = ""
            else:
                cur += ch
        return [x for x in out + [cur] if x.strip()]

    def build(self):
        r, p = self.r, self.p
        names = self.t["first"][:]
        r.shuffle(names)
        n = r.choice([3, 4, 4, 5, 5, 6])
        self.first = names[:n]
        lasts = self.t["last"][:]
        r.shuffle(lasts)
        people = ["%s %s" % (a, b) for a, b in zip(self.first, lasts)]
        tidy = r.sample(self.first, r.randint(0, n // 2))
        self.styles = {w: "proper" if w in tidy else "plain" for w in self.first}
        self.basev = r.randrange(60) if not hasattr(self, "fixed") else self.fixed

        # which facts
        corrN = [s for s in p["N"] if s.corr]
        corrD = [s for s in p["D"] if s.corr]
        want = r.randint(2, 4)
        cd = r.sample(corrD, min(len(corrD), r.choice([0, 1, 1])))
        cn = r.sample(corrN, min(len(corrN), max(2, want) - len(cd)))
        nN = r.randint(8, min(12 - len(cn), len(p["N"])))
        nD = r.randint(6, min(9 - len(cd), len(p["D"])))
        pick = {}
        for k, n_, must in (("D", nD, cd), ("N", nN, cn)):
            rest = [s for s in p[k] if s not in must]
            pick[k] = must + r.sample(rest, n_ - len(must))
        for k in "UP":
            pick[k] = r.sample(p[k], r.randint(3, min(5, len(p[k]))))

        items, facts, vals = [], [], {}
        order = [s for k in "DNUP" for s in pick[k]]
        r.shuffle(order)
        fn = 0
        keys = [(i + r.random()) / len(order) for i in range(len(order))]
        corrected = set(map(id, cd + cn))
        # corrected facts come in the first two thirds
        front = [k for k in keys if k < 0.62]
        r.shuffle(front)
        kmap = {}
        for s in order:
            if id(s) in corrected:
                kmap[id(s)] = front.pop()
        left = [k for k in keys if k not in kmap.values()]
        r.shuffle(left)
        for s in order:
            if id(s) not in kmap:
                kmap[id(s)] = left.pop()
        for s in sorted(order, key=lambda s: kmap[id(s)]):
            fn += 1
            env = {}
            fid = "f%d" % fn
            value, words, q = self.fact(s, env)
            facts.append({"id": fid, "kind": KIND[s.kind], "message": None, "words": words,
                          "value": value, "question": q, "superseded_by": None})
            key = kmap[id(s)]
            items.append((key, s.kind, self.render(s, fid, env, None, value)))
            if id(s) in corrected:
                c = s.corr
                oldf = facts[-1]
                fn += 1
                fid2 = "f%d" % fn
                v2, w2, q2 = self.fact(c, env)
                if v2 is not None and v2 == value:
                    raise Reroll("same value")
                oldf["superseded_by"] = fid2
                facts.append({"id": fid2, "kind": KIND[c.kind], "message": None, "words": w2,
                              "value": v2, "question": q2, "superseded_by": None})
                k2 = key + r.uniform(0.08, max(0.1, 0.97 - key))
                items.append((min(k2, 0.985), c.kind, self.render(c, fid2, env, value, v2)))

        # days
        days = r.randint(5, 8)
        mor = r.sample(self.share(self.t["morning"]), days)
        eve = r.sample(self.share(self.t["evening"]), days - 1)
        cuts = [0.0] + sorted(r.uniform(0.06, 0.94) for _ in range(days - 1))
        # keep the cuts apart
        cuts = [0.0] + [(i + r.uniform(-0.25, 0.25)) / days for i in range(1, days)]
        for i, c in enumerate(cuts):
            if i:
                items.append((c - 1e-6, "day", self.render(eve[i - 1])))
            items.append((c, "day", self.render(mor[i])))
        total = sum(len(x[2]) for x in items)

        own = p["F"][:]
        r.shuffle(own)
        tem = self.t["templates"][:]
        r.shuffle(tem)
        small = self.share(self.t["talk"])
        r.shuffle(small)
        one = [s for s in self.t["templates"] if len(s.lines) == 1]
        r.shuffle(one)
        queue = []
        while own or tem or small:
            for lst, w in ((own, 4), (tem, 4), (small, 2)):
                for _ in range(w):
                    if lst and r.random() < 0.9:
                        queue.append((lst.pop(), lst is own))
        filler = []
        dropped = set()
        for s, mine in queue:
            left = SIZE - total
            if left <= 0:
                break
            if len(s.lines) > left:
                continue
            save = dict(self.count)
            rr = self.render(s)
            if not all(self.limit(x[1]) for x in rr):
                self.count = save
                continue
            filler.append(rr)
            total += len(rr)
        while total < SIZE and one:
            s = one.pop()
            rr = self.render(s)
            if self.limit(rr[0][1]):
                filler.append(rr)
                total += 1
        if total != SIZE:
            raise Reroll("size %d in %s" % (total, p["name"]))
        for i, f in enumerate(filler):
            items.append((r.uniform(0.003, 0.999), "F", f))
        items.sort(key=lambda x: x[0])

        # a little interleaving: the last line of a scene comes after the first of the next
        seqs = [(k, lines) for _, k, lines in items]
        flat = []
        i = 0
        carry = None
        for i, (k, lines) in enumerate(seqs):
            lines = lines[:]
            if carry is not None and lines:
                flat.append(lines.pop(0))
                flat.append(carry)
                carry = None
            nxt = seqs[i + 1] if i + 1 < len(seqs) else None
            if k != "day" and nxt and nxt[0] == "F" and len(lines) >= 3 and len(nxt[1]) >= 2 and r.random() < 0.25 \
                    and lines[-1][2] is None:
                carry = lines.pop()
            flat += lines
        if carry is not None:
            flat.append(carry)
        byid = {f["id"]: f for f in facts}
        for j, (_, _, fid) in enumerate(flat):
            if fid:
                if byid[fid]["message"] is not None:
                    raise SystemExit("two stars: %s in %s" % (byid[fid], p["name"]))
                byid[fid]["message"] = j
        # ids in the order of the thread
        facts.sort(key=lambda f: f["message"])
        ren = {f["id"]: "f%d" % (i + 1) for i, f in enumerate(facts)}
        for f in facts:
            f["id"] = ren[f["id"]]
            if f["superseded_by"]:
                f["superseded_by"] = ren[f["superseded_by"]]
        for f in facts:
            if f["value"] is None:
                f["value"] = ""
        return {"language": p["lang"], "title": p["titles"][self.use % len(p["titles"])], "people": people,
                "topic": p["name"], "half": self.side,
                "messages": [{"who": w, "text": t} for w, t, _ in flat], "facts": facts}


def main():
    packs, talks = [], {}
    for fn in sorted(os.listdir(STOCK)):
        text = open(os.path.join(STOCK, fn), encoding="utf-8").read()
        if fn.startswith("talk-"):
            talks[fn[5:7]] = parse_talk(text)
        else:
            packs.append(parse_pack(text, fn[:-4]))
    import check
    os.makedirs(OUT, exist_ok=True)
    for fn in os.listdir(OUT):
        os.remove(os.path.join(OUT, fn))
    order = PLAN[:]
    random.Random(SEED).shuffle(order)
    used = {}
    bad = 0
    for i, lang in enumerate(order):
        for side, nn in (("dev", 2 * i + 1), ("held", 2 * i + 2)):
            mine = [p for p in packs if p["lang"] == lang and p["side"] == side]
            if not mine or lang not in talks:
                continue
            k = used.setdefault((lang, side), 0)
            used[(lang, side)] += 1
            pack, use = mine[k % len(mine)], k // len(mine)
            for attempt in range(400):
                c = Composer(pack, talks[lang], use, side, random.Random("%d/%d/%d" % (SEED, nn, attempt)))
                c.fixed = random.Random("%d/%s" % (SEED, pack["name"])).randrange(60)
                try:
                    th = c.build()
                except Reroll as e:
                    err = [str(e)]
                    continue
                err = check.check(th)
                if not err:
                    break
            else:
                bad += 1
                print("%02d-%s %s: %s" % (nn, lang, pack["name"], err[:6]))
            with open(os.path.join(OUT, "%02d-%s.json" % (nn, lang)), "w", encoding="utf-8") as f:
                json.dump(th, f, ensure_ascii=False, indent=1)
                f.write("\n")
    return bad


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
