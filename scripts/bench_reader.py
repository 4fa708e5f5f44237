"""A scripted model that finds messages with a tool, as a modest model does, and restates the best one with its handle."""

import json
import re

NOTHING = "I found nothing about this."
QUERY_CHARS_MAX = 500
STATED_CHARS_MAX = 300

FUNCTION_WORDS = set(
    "a about after all am an and any are as at be because been before but by can could did do does during for from get gets go goes got had "
    "has have he her him his how i if in into is it its just long many may me much must my no not of off on or our out she should since so "
    "some still than that the their them then there these they this those to too under until up us was we were what when where which while "
    "who whom whose why will with within would you your "
    "ab aber alle als am an auch auf aus bei beim bis da das dass dem den der des die du durch ein eine einem einen einer er es für hat "
    "hatte ich ihr im in ist ja kann kein keine man mehr mit nach nicht noch nur ob oder schon sein sich sie sind so um und uns unser viel "
    "vom von vor wann war warum was wegen weil welche welchem welchen welcher welches wem wen wenn wer wie wir wird wo zu zum zur über".split()
)
# Words that name the requested value, and that an answer seldom repeats.
KIND_WORDS = set("day days date time amount tag tage datum uhr betrag".split())
ENDING = re.compile(r"(?<=\w{3})(ing|ed|es|er|en|s|e|n)$")
# A search result: its handle, author, place, and day, then its text.
HIT = re.compile(r"^\[(S\d+)\] (.+) in (?:#\S+|a direct message), \d{4}-\d\d-\d\d:$", re.MULTILINE)
BESIDE = re.compile(r"^\[(S\d+\] \((before|after)\) |F\d+\] file )")
REPLACES = re.compile(r"\b(not|now|moved?|raised|instead|wrong|nicht|sondern|jetzt|statt)\b", re.I)
CALENDAR = (
    "January February March April May June July August September October November December Monday Tuesday Wednesday Thursday Friday "
    "Saturday Sunday Januar Februar März Mai Juni Juli Oktober Dezember Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"
).replace(" ", "|")
NUMBERS = "half|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|halb|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
# Questions, and texts that can answer them.
KINDS = [
    (r"\b(when|(what|which|welchem) (day|days|date|time|tag|datum)|deadline|wann)\b", rf"\b({CALENDAR})|\d:\d\d"),
    (r"\b(price|cost|pay|amount|kostet|betrag)\b", r"\d.*(?i:euro|million)"),
    (
        r"\b(how (much|many|long|big|high)|number|version|limit|maximum|discount|wie (viel|viele|groß|lange|hoch))\b",
        rf"\d|\b(?i:{NUMBERS})\b",
    ),
    (r"\b(why|warum)\b", r"\b(because|since|so|weil|denn)\b"),
]


def content_words(text):
    words = re.findall(r"\w+", text.lower())
    return [word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS]


def stems(words):
    return {ENDING.sub("", word) for word in words}


def hits(results):
    """Handles, authors, and texts of search results, without the messages beside them."""
    found = []
    for result in results:
        parts = HIT.split(result)[1:]
        for handle, author, body in zip(parts[::3], parts[1::3], parts[2::3]):
            lines = [line for line in body.strip().splitlines() if not BESIDE.match(line)]
            found.append((handle, author, " ".join(lines)))
    return found


def names(text):
    return {name.lower() for name in re.findall(r"\b[A-ZÄÖÜ]\w+", text)}


def can_answer(question, text):
    """Whether a text has what a question asks for: a day, an amount, a reason, or a name that the question does not have."""
    for asked, answer in KINDS:
        if re.search(asked, question, re.I):
            return bool(re.search(answer, text))
    asks_for_name = re.search(r"\b(who|wer)\b", question, re.I)
    return bool(asks_for_name and names(text) - set(re.findall(r"\w+", question.lower())) - FUNCTION_WORDS)


def best_answer(question, results):
    """Restates the hit with most words of the question: at least half of them, and one of its names. Among those with as many, one that has
    what is asked for is better, then one that replaces something, then the first one. Questions are not answers."""
    asked, named = stems(set(content_words(question)) - KIND_WORDS), names(question)
    best, best_score = None, (0, False, False)
    for handle, author, text in hits(results):
        shared = len(asked & stems(content_words(text)))
        is_about = shared * 2 >= len(asked) and (not named or named & set(re.findall(r"\w+", text.lower())))
        score = (shared, can_answer(question, text), bool(REPLACES.search(text)))
        if is_about and not text.endswith("?") and score > best_score:
            best, best_score = (handle, author, text), score
    if best is None:
        return NOTHING
    handle, author, text = best
    return f"According to {author}: {text[:STATED_CHARS_MAX].rstrip(' .!')} [{handle}]."


class Reader:
    """Answers requests of the server, and keeps their texts."""

    def __init__(self):
        self.requests = []

    def answer(self, request):
        messages = request["messages"]
        self.requests.append("\n".join(str(message.get("content") or "") for message in messages))
        asked = [message["content"] for message in messages if message["role"] == "user"][-1]
        question = asked.split("\n\n")[-1].replace("@vibe", "").strip()
        results = [message["content"] for message in messages if message["role"] == "tool"]
        words = content_words(question)
        # After a search without results, search for the longer words only.
        if len(results) == 1 and not hits(results):
            half = sorted(words, key=len)[len(words) // 2 :]
            if len(half) < len(words):
                return call(half, len(results))
        if not results and request.get("tools"):
            return call(words, len(results))
        return {"content": best_answer(question, results)}, "stop"


def call(words, number):
    arguments = json.dumps({"query": " ".join(words)[:QUERY_CHARS_MAX]}, ensure_ascii=False)
    function = {"name": "search_messages", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": f"call_{number + 1}", "type": "function", "function": function}]}, "tool_calls"
