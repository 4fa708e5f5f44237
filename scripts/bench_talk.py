"""Team chat for benchmarks: generated threads, some of which contain labeled facts, and questions about these.

`tests/ask/facts.json` is a list of facts: `channel`, `fact` (the sentence), `near` (sentences that share words with it), and `question`;
`old`: an earlier sentence whose value the fact replaces; `paraphrased`: the question replaces a word of the fact. A fact in a private
channel has `asked_in`, `inside`, `public`, or `private` (another private channel), where a member of its channel asks, and `hidden` texts,
which nothing else contains. `tests/ask/talk.json` has people, channels, words, the most frequent ones first, and templates.
"""

import dataclasses
import itertools
import json
import pathlib
import random
import re

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "ask"
# Parts are posted one after another, the threads of a part at the same time.
PARTS = 20
THREAD_SIZES = [2, 3, 4, 6, 8, 12, 18, 30]
# Threads with a labeled sentence.
TOLD_SIZES = [4, 6, 8]
TALK_SHARE = 0.65
# The frequency of a word falls with this power of its rank: of 10⁵ messages, thousands contain the first one, about ten the last one.
STEEPNESS = 1.2
# Length of a run of words that identifies private text.
RUN_WORDS = 4
# Kinds of words that are chosen once for a whole thread.
BOUND = ["customer", "supplier", "product", "place", "system", "matter"]
MONTH_DAYS = 28


@dataclasses.dataclass(frozen=True)
class Channel:
    name: str
    language: str
    is_private: bool
    members: list
    # Subjects that this channel uses in place of customers.
    subjects: list


@dataclasses.dataclass(frozen=True)
class Fact:
    number: int
    channel: str
    fact: str
    near: list
    question: str
    old: str = ""
    paraphrased: bool = False
    asked_in: str = "public"
    hidden: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Post:
    author: str
    text: str
    # Number of the fact that the post states.
    fact: int | None = None


@dataclasses.dataclass(frozen=True)
class Thread:
    channel: str
    posts: list


@dataclasses.dataclass(frozen=True)
class Question:
    fact: Fact
    # Channel in which the question is asked.
    place: str
    asker: str
    language: str
    # Not everyone there can read the fact.
    is_hidden: bool


@dataclasses.dataclass(frozen=True)
class Talk:
    people: list
    channels: dict
    parts: list
    questions: list

    def threads(self):
        return itertools.chain.from_iterable(self.parts)


class Writer:
    """Writes threads from templates."""

    def __init__(self, rng, data):
        self.rng = rng
        self.data = data
        self.first_names = [name.split()[0] for name in data["people"]]
        longest = max(len(words) for words in [*data["words"].values(), data["en"]["matter"]])
        self.weights = list(itertools.accumulate((rank + 2) ** -STEEPNESS for rank in range(longest)))

    def pick(self, words):
        return self.rng.choices(words, cum_weights=self.weights[: len(words)])[0]

    def bound(self, channel, told):
        """Words of a thread: those in the sentence that is told in it, otherwise any."""
        lists = {**self.data["words"], "matter": self.data[channel.language]["matter"]}
        if channel.subjects:
            lists["customer"] = channel.subjects
        named = lambda words: next((word for word in words if word.lower() in told.lower()), None)
        return {slot: named(lists[slot]) or self.pick(lists[slot]) for slot in BOUND}

    def filled(self, template, language, bound):
        def value(slot):
            return bound.get(slot[1]) or self.value(slot[1], language)

        return re.sub(r"\{(\w+)\}", value, template)

    def value(self, slot, language):
        rng, words = self.rng, self.data[language]
        if slot == "person":
            return rng.choice(self.first_names)
        if slot == "n":
            return str(rng.randint(2, 60))
        if slot == "big":
            return str(rng.randint(1_000, 99_999))
        if slot == "time":
            return f"{rng.randint(7, 18)}:{rng.choice([0, 15, 30, 45]):02}"
        if slot == "date":
            dot = "." if language == "de" else ""
            return f"{rng.randint(1, MONTH_DAYS)}{dot} {rng.choice(words['month'])}"
        return rng.choice(words[slot])

    def thread(self, channel, size, told="", fact=None):
        """A thread; a sentence in it is told by somebody whom it does not name."""
        rng, texts = self.rng, self.data[channel.language]
        bound = self.bound(channel, told)
        authors = rng.sample(channel.members, rng.randint(2, 5))
        at = rng.randrange(1, size) if told else None
        posts = []
        for n in range(size):
            if n == at:
                others = [name for name in channel.members if name.split()[0] not in told]
                posts.append(Post(rng.choice(others), told, fact))
                continue
            kind = "opener" if n == 0 else "talk" if rng.random() < TALK_SHARE else "chatter"
            text = self.filled(rng.choice(texts[kind]), channel.language, bound)
            others = [name for name in authors if not posts or name != posts[-1].author]
            posts.append(Post(rng.choice(others), text))
        return Thread(channel.name, posts)


def read_facts():
    facts = json.loads((DATA / "facts.json").read_text())
    return [Fact(number, **fact) for number, fact in enumerate(facts)]


def read_channels(data, rng):
    channels = {}
    for language, names in data["public"].items():
        channels.update({name: Channel(name, language, False, data["people"], []) for name in names})
    for name, private in data["private"].items():
        members = rng.sample(data["people"], rng.randint(6, 10))
        channels[name] = Channel(name, private["language"], True, members, private["subjects"])
    return channels


def told_threads(writer, channels, facts):
    """Threads with labeled sentences, each with the number of its part."""
    rng = writer.rng
    for fact in facts:
        home = channels[fact.channel]
        alike = [channel for channel in channels.values() if channel.language == home.language and not channel.is_private]
        part = rng.randrange(1, PARTS)
        told = [(part, home, fact.fact, fact.number)]
        if fact.old:
            told.append((rng.randrange(part), home, fact.old, None))
        for near in fact.near:
            told.append((rng.randrange(PARTS), home if home.is_private else rng.choice(alike), near, None))
        for part, channel, text, number in told:
            yield part, writer.thread(channel, rng.choice(TOLD_SIZES), text, number)


def place_of(fact, channels, rng):
    """Channel in which a fact is asked for, and the person who asks."""
    home = channels[fact.channel]
    if fact.asked_in == "inside":
        return home, rng.choice(home.members)
    is_private = fact.asked_in == "private"
    places = [channel for channel in channels.values() if channel.is_private == is_private and channel is not home]
    rng.shuffle(places)
    for place in places:
        both = [name for name in home.members if name in place.members]
        if both:
            return place, rng.choice(both)
    raise ValueError(f"no other channel has a member of #{home.name}")


def question_of(fact, channels, rng):
    home = channels[fact.channel]
    place, asker = place_of(fact, channels, rng)
    return Question(fact, place.name, asker, home.language, home.is_private and place is not home)


def generate(seed, messages, questions):
    """Talk with about this many messages; at least those around the facts."""
    rng = random.Random(seed)
    data = json.loads((DATA / "talk.json").read_text())
    channels = read_channels(data, rng)
    facts = read_facts()
    writer = Writer(rng, data)
    parts = [[] for _ in range(PARTS)]
    count = 0
    for part, thread in told_threads(writer, channels, facts):
        parts[part].append(thread)
        count += len(thread.posts)
    everywhere = list(channels.values())
    while count < messages:
        size = min(rng.choice(THREAD_SIZES), messages - count)
        rng.choice(parts).append(writer.thread(rng.choice(everywhere), size))
        count += size
    for part in parts:
        rng.shuffle(part)
    asked = [question_of(fact, channels, rng) for fact in rng.sample(facts, min(questions, len(facts)))]
    talk = Talk(data["people"], channels, parts, asked)
    check_hidden(talk, facts)
    return talk


def check_hidden(talk, facts):
    hidden = {text: fact.number for fact in facts for text in fact.hidden}
    for thread in talk.threads():
        for post in thread.posts:
            for text, number in hidden.items():
                if text in post.text.lower() and post.fact != number:
                    raise ValueError(f"{text!r} is hidden, but is also in {post.text!r}")


def runs(text):
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[n : n + RUN_WORDS]) for n in range(len(words) - RUN_WORDS + 1)}


class PrivateText:
    """Runs of words that occur only in private channels."""

    def __init__(self, talk):
        self.names = {channel.name for channel in talk.channels.values() if channel.is_private}
        self.channels = {}
        public = set()
        for question in talk.questions:
            public |= runs(question.fact.question)
        for thread in talk.threads():
            is_private = thread.channel in self.names
            for post in thread.posts:
                if not is_private:
                    public |= runs(post.text)
                    continue
                for run in runs(post.text):
                    self.channels.setdefault(run, set()).add(thread.channel)
        for run in public & self.channels.keys():
            del self.channels[run]

    def found(self, text, place):
        """Private text in a text that is shown in a channel: names of other private channels, and what was said there."""
        found = {f"#{name}" for name in re.findall(r"#([\w-]+)", text) if name in self.names - {place}}
        for run in runs(text):
            if place not in self.channels.get(run, {place}):
                found.add(run)
        return sorted(found)
