import type { Message } from '../api/types';

/** A person's message, reduced to the data that the rule needs. */
export interface Spoken {
  author: string;
  /** Unix time in ms. */
  at: number;
  text: string;
}

/** Discussions that ended longer ago get no suggestion. */
const RECENT_MS = 60 * 60_000;
const NEWEST = 12;
const BY_TWO_MIN = 8;
const SPAN_MS = 15 * 60_000;
const TURNS_MIN = 4;
const WORDS_MIN = 3;

/** Messages of people in the main line, if the last one is recent. */
export function spokenIn(messages: readonly Message[], now = Date.now()): Spoken[] {
  const spoken = messages
    .filter((m) => m.author.type === 'human' && m.kind === 'text' && !m.fork_id && !m.deleted_at)
    .map((m) => ({ author: m.author.id ?? '', at: Date.parse(m.created_at), text: m.content }));
  const last = spoken.at(-1);
  return last && now - last.at <= RECENT_MS ? spoken : [];
}

/** Minimum number of letters of a word that counts, and number of letters by which word forms are compared. */
const LETTERS_MIN = 3;
const STEM_LETTERS = 5;
/** Frequent words that do not name a subject: English, German, Spanish. */
const STOP_WORDS = new Set(
  `all and any are ask big but can did don few for get got had has her him his how its let lot may new not now off old one our out own
  per put say see set she six ten the too try two use was way who why yes yet you
  about after again agree also always another anyway back because been before being both call came cannot come could does doing
  done each either else even every everyone exactly fact fine first from gets give goes going good great have here into isn
  just keep know last later less like little long look make many maybe mean means more most much must need never nice
  nobody nothing only other ours over part perhaps point please probably really right same says seems should since some somebody
  something still such sure take than thank thanks that their them then there these they thing things think this those though
  through today tomorrow under until very want well were what when where which while whose will with without would yesterday yes
  your
  als auf aus bei bin bis das dem den der des die dir drei ein für gar gut hat ich ihm ihn ihr ist man mal mir mit nie nun nur oft
  los sie sind tun und uns vom von vor war was weg wem wen wer wie wir wo zum zur
  aber alle allem allen alles also andere anderen auch beide beim bitte dabei dafür damit dann darf darum dass davon dazu dein deine
  dem denen denn deren dessen deshalb dich dies diese diesem diesen dieser dieses doch dort durch eben eigentlich eine einem einen
  einer eines einfach einmal erst etwas euch für ganz geht genau gerade gerne habe haben hast hatte hier hinter ihre ihrem ihren immer
  jede jeder jetzt kann kannst kein keine keinen klar kommt können läuft macht machen mehr mein meine muss müssen müsste nach nicht
  nichts noch nur oben oder ohne oft okay schon sehr sein seine seit sich sicher sind sollte sonst statt steht trotz über unter unser
  viel vielleicht warum weil weiß welche wenn werden wieder wieso wird wirklich wäre würde ziemlich zwar zwei zwischen
  así ayer bajo con cual del dos era esa ese eso fin fue hay hoy las les los mal mis muy nos por que qué sea ser son sin sus una uno van vez
  voy ahora algo algunos antes aquí aunque bien cada casi claro como con cosa creo cual cuando cuanto debe desde después donde ella ellos
  entonces entre eres esta está están estas este esto estos hace hacer hacia hasta igual luego más mejor menos mismo mucho muchos nada
  nadie otra otro para pero poco podemos porque puede pues quien quizá sabe según sería siempre sino sobre solo también tanto tener
  tiene tienen toda todas todo todos tras unas unos vamos veces`
    .split(/\s+/)
    .filter(Boolean),
);

/** Stems of the words of a text that can name a subject. */
function subjects(text: string): Set<string> {
  const words =
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/\p{L}+/gu) ?? [];
  return new Set(
    words
      .filter((word) => word.length >= LETTERS_MIN && !STOP_WORDS.has(word))
      .map((word) => word.slice(0, STEM_LETTERS)),
  );
}

/** The largest group of these messages that fits into the time span. Input and result are in order. */
function densest(messages: readonly Spoken[]): readonly Spoken[] {
  let best: readonly Spoken[] = [];
  messages.forEach((first, from) => {
    const within = messages.slice(from).filter((m) => m.at - first.at <= SPAN_MS);
    if (within.length > best.length) best = within;
  });
  return best;
}

/** The two people who wrote most of the newest messages, and their messages. */
function ofTwo(messages: readonly Spoken[]): { two: string[]; spoken: readonly Spoken[] } {
  const newest = messages.slice(-NEWEST);
  const counts = new Map<string, number>();
  for (const { author } of newest) counts.set(author, (counts.get(author) ?? 0) + 1);
  const two = [...counts.keys()].sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0)).slice(0, 2);
  return { two, spoken: densest(newest.filter((m) => two.includes(m.author))) };
}

/** Baseline: true if two people wrote eight of the newest messages. */
export const isBusy = (messages: readonly Spoken[]): boolean => {
  const { two, spoken } = ofTwo(messages);
  return two.length === 2 && spoken.length >= BY_TWO_MIN;
};

/**
 * The two people who are deep in one subject: eight of the newest twelve messages of people, within 15 minutes, taking turns, with
 * three words that half of the messages share. Null if there are none. `messages` are in order.
 */
export function deepTalkers(messages: readonly Spoken[]): string[] | null {
  if (!isBusy(messages)) return null;
  const { two, spoken } = ofTwo(messages);
  const turns = spoken.filter((m, n) => n > 0 && m.author !== spoken[n - 1]?.author).length;
  if (turns < TURNS_MIN) return null;
  const counts = new Map<string, number>();
  for (const { text } of spoken)
    for (const word of subjects(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const shared = [...counts.values()].filter((n) => n >= spoken.length / 2);
  return shared.length >= WORDS_MIN ? two : null;
}
