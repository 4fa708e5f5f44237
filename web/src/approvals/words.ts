import type { Action, ToolErrorCode } from '../api/actions';
import { listed, withCodes } from '../lib/text';
import { plural, seconds, since } from '../lib/time';

/** Name of a user as it appears in sentences. */
export type NameOf = (user: string | null) => string;

/** True if the action pushes changes of a repository. */
export const isPush = (a: Action): boolean => a.function === 'push' && !a.tool;
/** True if an agent asks its requester something. */
export const isQuestion = (a: Action): boolean => a.kind === 'question';
/** True if a person must decide. */
export const isOpen = (a: Action): boolean => a.state === 'waiting' || a.state === 'unknown';
/** True if the action is running, or is about to run. */
export const isRunning = (a: Action): boolean => a.state === 'approved' || a.state === 'running';

/** True if the action was refused, or did not succeed. */
export const hasFailed = (a: Action): boolean =>
  a.state === 'denied' || a.state === 'expired' || a.state === 'cancelled' || a.state === 'failed';

/** Progress of an action, to detect a response that is older than an event. */
export const progressOf = (a: Action): number => {
  const stage = { waiting: 0, approved: 1, running: 2, unknown: 3 }[a.state as string] ?? 4;
  return stage * 100 + a.needs.filter((need) => need.by).length;
};

/** People whose decision is pending: "Ada", "Ada and an admin". */
export function waitsFor(a: Action, nameOf: NameOf): string {
  if (a.state === 'unknown') return nameOf(a.requested_by);
  const names = a.needs
    .filter((need) => !need.by)
    .map((need) => {
      if (need.who === 'admin') return 'an admin';
      if (need.who === 'any_member') return 'a member';
      return nameOf(need.who === 'user' ? need.user_id : a.requested_by);
    });
  return listed([...new Set(names)]);
}

/** Label of the registered server, from the action's name; empty if it has none. */
const labelOf = (a: Action): string => /^mcp:([^.]+)\./.exec(a.name)?.[1] ?? '';
/** Title of the server that performs the action; empty for actions within the workspace. */
export const serverOf = (a: Action, titles: ReadonlyMap<string, string> | null): string =>
  a.tool ? (titles?.get(a.tool) ?? labelOf(a)) : '';

/** "Vibe wants to do this in Jira for you." */
export const wantText = (agent: string, server: string, requester: string): string =>
  `${agent} wants to do this${server ? ` in ${server}` : ''} for ${requester}.`;
/** Question asked by a run: "A workflow that runs for you needs your approval to go on." */
export function runText(requester: string, channel: string | null): string {
  const want = channel ? `wants to post this in ${channel}` : 'needs your approval to go on';
  return `A workflow that runs for ${requester} ${want}.`;
}
/**
 * Other channel in which a run wants to post; null if it asks for something else, or if the channel is
 * hidden.
 */
export function postedIn(a: Action): string | null {
  const channel = a.kind === 'approval' ? a.arguments?.channel_id : null;
  return typeof channel === 'string' ? channel : null;
}
export function unknownText(server: string, a: Action): string {
  // The result is the code of the error and its description: "tool_timeout: Jira did not respond in time".
  const reason = a.error && a.result?.startsWith(`${a.error}: `) ? a.result.slice(a.error.length + 2) : '';
  const ask = `${server || 'The server'} may have received this. Did it happen?`;
  return reason ? `${withCodes(reason)}. ${ask}` : ask;
}

/** Maximum length of a label, and number of labels in a sentence. */
const LABEL_MAX = 60;
const LABELS_MAX = 10;
/** One word, which may contain dots: "plan.txt". */
const HOST_OR_FILE = /^[\p{L}\p{M}\p{N}'’-]+(\.[\p{L}\p{N}-]+)*$/u;
/** At most three words that begin with capital letters, or with letters of a script without case. */
const NAME = /^[\p{Lu}\p{Lo}][\p{L}\p{M}'’-]*( [\p{Lu}\p{Lo}][\p{L}\p{M}'’-]*){0,2}$/u;
/** A label chosen by others, quoted if it could be read as part of the sentence. */
export const labelText = (label: string): string => {
  const text = withCodes(label);
  const cut = text.length > LABEL_MAX ? `${text.slice(0, LABEL_MAX)}…` : text;
  return HOST_OR_FILE.test(cut) || NAME.test(cut) ? cut : `“${cut.replace(/[“”]/g, '"')}”`;
};
/** The first labels, and the number of the others. */
const someOf = (labels: string[]): string =>
  labels.length > LABELS_MAX
    ? `${labels.slice(0, LABELS_MAX).join(', ')}, and ${labels.length - LABELS_MAX} more`
    : listed(labels);

/**
 * Sources that the agent has seen: "It has read: example.com (web page), messages by Bo." Empty if it has
 * seen none.
 */
export function sourcesText(a: Action): string {
  const by = { message: new Set<string>(), reply: new Set<string>(), key: new Set<string>() };
  const others = new Set<string>();
  for (const { kind, label } of a.sources) {
    if (kind === 'message' || kind === 'reply' || kind === 'key') by[kind].add(labelText(label));
    else if (kind === 'bot') others.add(`${labelText(label)} (bot)`);
    else if (kind === 'file') others.add(`${labelText(label)} (file)`);
    else if (kind === 'page') others.add(`${labelText(label)} (web page)`);
    else if (kind === 'mcp') others.add(`${labelText(label)} (tool)`);
    else if (kind === 'repository') others.add(labelText(label.replace(/ \(repository\)$/, '')));
    else if (kind === 'import') others.add(`${labelText(label)} (import)`);
    else if (kind !== 'author') others.add(label);
  }
  const parts = others.size > LABELS_MAX ? [someOf([...others])] : [...others];
  const people = (names: Set<string>, text: string) => {
    if (names.size) parts.push(`${text} ${someOf([...names])}`);
  };
  people(by.message, 'messages by');
  people(by.reply, 'replies by');
  people(by.key, 'messages posted with an API key of');
  return parts.length ? `It has read: ${parts.join(', ')}.` : '';
}

/** Names of texts that take a plural verb. */
const PLURAL = ['instructions', 'tools', 'skills', 'memories', 'steps'];

/** A sentence about the author of texts that shape an agent, and the agent that has them. */
export interface AuthorLine {
  agent: string | null;
  text: string;
}

/**
 * Authors of the texts that shape the agent, one sentence for each author and agent: "Its instructions and
 * tools are by Bo." The agent is null for the steps of a workflow.
 */
export function authorLines(a: Action, nameOf: NameOf, agentName: NameOf): AuthorLine[] {
  const lines = new Map<string, { agent: string | null; user: string | null; parts: string[] }>();
  for (const { author } of a.sources) {
    if (!author) continue;
    const [agent, user] = [author.agent_id ?? null, author.user_id ?? null];
    const key = `${agent} ${user}`;
    const line = lines.get(key) ?? { agent, user, parts: [] };
    if (!line.parts.includes(author.part)) line.parts.push(author.part);
    lines.set(key, line);
  }
  return [...lines.values()].map(({ agent, user, parts }) => {
    const owner =
      agent === null ? "The workflow's" : agent === a.agent_id ? 'Its' : `${labelText(agentName(agent))}'s`;
    const verb = parts.length > 1 || PLURAL.includes(parts[0] ?? '') ? 'are' : 'is';
    const name = user === null ? 'a former member' : labelText(nameOf(user));
    return { agent, text: `${owner} ${listed(parts)} ${verb} by ${inSentence(name)}.` };
  });
}

/** Descriptions of the server's own functions, by name: while they run, and afterwards. */
const BUILT_IN: Record<string, [doing: string, done: string]> = {
  search_messages: ['Searching messages', 'Searched messages'],
  read_thread: ['Reading a thread', 'Read a thread'],
  search_decisions: ['Searching decisions', 'Searched decisions'],
  list_action_items: ['Listing action items', 'Listed action items'],
  search_files: ['Searching files', 'Searched files'],
  read_file: ['Reading a file', 'Read a file'],
  web_fetch: ['Reading a web page', 'Read a web page'],
  run_code: ['Running code', 'Ran code'],
  delegate: ['Asking an agent', 'Asked an agent'],
};
/** True if the action delegates work to another agent. */
export const isDelegation = (a: Action): boolean => a.function === 'delegate' && !a.tool;
/** Handle of the asked agent; blank if the arguments are hidden. */
export function askedHandle(a: Action): string {
  const handle = a.arguments?.agent;
  return isDelegation(a) && typeof handle === 'string' ? handle.trim().replace(/^@/, '').toLowerCase() : '';
}
/** Answer of the asked agent, from the second line of the result; null if there is none. */
export function agentAnswer(a: Action): string | null {
  if (!isDelegation(a) || a.state !== 'done' || !a.result) return null;
  try {
    const { text } = JSON.parse(a.result.slice(a.result.indexOf('\n') + 1)) as { text?: unknown };
    return typeof text === 'string' ? text : null;
  } catch {
    return null; // the result is shown as it is
  }
}
const builtIn = (a: Action) => (a.tool ? undefined : BUILT_IN[a.function]);
/** Description of a running action: "Searching messages". */
export const doingText = (a: Action): string => builtIn(a)?.[0] ?? a.title;

const ERRORS: Record<ToolErrorCode, string> = {
  bad_arguments: 'invalid arguments',
  no_such_function: 'no such function',
  not_allowed: 'not allowed',
  not_found: 'not found',
  unreadable: 'not readable',
  denied: 'denied',
  expired: 'expired',
  cancelled: 'stopped',
  definition_changed: 'changed by the server',
  tool_unreachable: 'server not reachable',
  tool_timeout: 'timed out',
  too_much_data: 'server sent too much data',
  tool_failed: 'failed',
  too_many_calls: 'too many calls',
  repeated_call: 'repeated too often',
  rate_limited: 'too many calls at once',
  input_not_supported: 'asked for input',
  no_approver: 'nobody can approve it',
};
/** Outcome of a step, to be shown after its name: "6 results", "timed out"; blank if there is none. */
export function outcomeText(a: Action, nameOf: NameOf): string {
  if (a.state === 'waiting') return `waiting for ${inSentence(waitsFor(a, nameOf))}`;
  if (a.state === 'unknown') return 'may have happened';
  if (isRunning(a)) return 'running';
  if (a.error) return ERRORS[a.error];
  if (a.state === 'failed') return 'did not happen';
  return a.state !== 'done' ? a.state : a.count === null ? '' : plural(a.count, 'result');
}
/** Name of a step: "Searched messages", "Asked Coder". */
export const stepName = (a: Action, agent = 'an agent'): string => {
  const name = (a.state === 'done' ? builtIn(a)?.[1] : isRunning(a) ? builtIn(a)?.[0] : undefined) ?? a.title;
  return isDelegation(a) ? name.replace('an agent', () => agent) : name;
};
/** "Searched messages · 6 results · 0.4 s". `agent` is the name of the agent that was asked. */
export const stepText = (a: Action, nameOf: NameOf, agent?: string): string =>
  [stepName(a, agent), outcomeText(a, nameOf), a.duration_ms === null ? '' : seconds(a.duration_ms)]
    .filter(Boolean)
    .join(' · ');

/** Name for use inside a sentence: "You" becomes "you". */
export const inSentence = (name: string): string =>
  name.replace(/^You\b/, 'you').replace(/ and You$/, ' and you');

/**
 * People who decided, and their decision: "Approved by Ada, 14:05", with the day unless it is today. Empty if
 * nobody decided.
 */
export function decisionText(a: Action, nameOf: NameOf): string {
  const decided = a.needs.filter((need) => need.by && need.at);
  const last = decided.reduce<(typeof decided)[number] | null>(
    (latest, need) => (latest && latest.at! >= need.at! ? latest : need),
    null,
  );
  if (a.state === 'denied' && last) return `Denied by ${inSentence(nameOf(last.by))}, ${since(last.at!)}`;
  if (a.state === 'expired' && !a.granted_by)
    return `Expired${a.ended_at ? `, ${since(a.ended_at)}` : ''}: nobody decided in time`;
  if (a.granted_by === 'grant') return 'Allowed for 1 hour by an earlier approval';
  if (a.granted_by !== 'person' || !last) return endText(a);
  const names = listed([...new Set(decided.map((need) => inSentence(nameOf(need.by))))]);
  return [`Approved by ${names}, ${since(last.at!)}`, endText(a)].filter(Boolean).join('. ');
}
/** Reason why an action did not run, although it was approved or was waiting for approval; blank if it ran. */
function endText(a: Action): string {
  if (a.state === 'expired') return 'It did not start in time';
  if (a.state !== 'cancelled') return '';
  const why = a.error && a.error !== 'cancelled' ? ERRORS[a.error] : '';
  return why ? `Not done: ${why}` : 'Stopped before it was done';
}

/** Arguments by name, as text; null if they are hidden or were removed. */
export function argumentsOf(a: Action): [name: string, value: string][] | null {
  const given: unknown = a.arguments;
  if (given === null || given === undefined) return null;
  const text = (value: unknown) =>
    withCodes(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
  if (a.kind === 'approval') return [['Text', text(a.arguments?.text ?? a.arguments?.content ?? given)]];
  if (typeof given !== 'object' || Array.isArray(given)) return [['Text', text(given)]];
  return Object.entries(given).map(([name, value]) => [withCodes(name) || '""', text(value)]);
}

/** Length in characters below which values are always shown in full. */
const VALUE_MIN = 200;
/** Cuts each value to its share of `max` characters, so that a long value cannot hide the others. */
export function firstOf(rows: [string, string][], max: number): [string, string][] {
  const share = Math.max(VALUE_MIN, Math.floor(max / rows.length));
  return rows.map(([name, value]) => [
    name,
    value.length <= share ? value : `${value.slice(0, share).trimEnd()}… (${value.length - share} more)`,
  ]);
}
