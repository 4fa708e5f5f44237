/** Parses slash commands of the composer. No state, no framework. */
export type Slash =
  /** Sets the responder. `query`: the typed part of the agent's name. */
  | { name: 'agent'; query: string }
  /** Starts a thread with the same agent; `text` is its first message, if not empty. */
  | { name: 'new'; text: string }
  /** Runs a workflow. `query`: its name. */
  | { name: 'run'; query: string; input: string }
  /** Runs a command of a bot; `text` follows its name. */
  | { name: 'bot'; command: string; text: string }
  /** No bot has the command, although some have others. */
  | { name: 'unknown'; command: string }
  /** A slash alone: lists the commands. */
  | { name: 'list' };

export const COMMANDS = [
  { name: 'agent', title: '/agent', note: 'Set the agent that replies here' },
  { name: 'new', title: '/new', note: 'Start a thread with the same agent' },
  { name: 'run', title: '/run', note: 'Start a workflow' },
] as const;
export type CommandName = (typeof COMMANDS)[number]['name'];

const NO_COMMANDS: ReadonlySet<string> = new Set();

/**
 * A command must be at the very start of the text. With an unknown word after the slash, the text is a normal message, unless bots
 * have commands: then it is probably one of them with a typing error.
 */
export function parseSlash(text: string, ofBots: ReadonlySet<string> = NO_COMMANDS): Slash | null {
  const m = /^\/(?:(agent|new|run)(?=\s|$)([\s\S]*)|\s*$)/i.exec(text);
  if (!m) return ofBots.size ? parseBotCommand(text, ofBots) : null;
  const rest = (m[2] ?? '').trim();
  switch (m[1]?.toLowerCase()) {
    case 'agent':
      return { name: 'agent', query: rest.replace(/^@/, '') };
    case 'new':
      return { name: 'new', text: rest };
    case 'run': {
      const query = rest.split(/\s/, 1)[0]!;
      return { name: 'run', query, input: rest.slice(query.length).trim() };
    }
    default:
      return { name: 'list' };
  }
}

function parseBotCommand(text: string, ofBots: ReadonlySet<string>): Slash | null {
  const m = /^\/([a-z0-9_-]{1,32})(?:\s([\s\S]*))?$/i.exec(text);
  if (!m) return null;
  const command = m[1]!.toLowerCase();
  return ofBots.has(command)
    ? { name: 'bot', command, text: (m[2] ?? '').trim() }
    : { name: 'unknown', command };
}

/** Escaped slash: doubled, or preceded by a backslash, before a word or alone. The text then starts with a slash. */
const ESCAPED = /^[/\\](?=\/(?:[a-z][\w-]*(?:\s|$)|\s*$))/i;
export const isEscaped = (text: string): boolean => ESCAPED.test(text);
/** Message text without the escape. */
export const unescaped = (text: string): string => text.replace(ESCAPED, '');

/** The part of a command that is being typed: its name, or the name of the agent or the workflow. */
export type Typing = { of: 'command' | 'agent' | 'run'; query: string } | null;
export function slashTyping(text: string, caret: number): Typing {
  const agent = /^\/agent(?:\s+@?([^\n]*))?$/i.exec(text);
  if (agent && caret >= '/agent'.length) return { of: 'agent', query: (agent[1] ?? '').trim().toLowerCase() };
  const head = text.slice(0, caret);
  if (!/^(?:\s|$)/.test(text.slice(caret))) return null;
  const run = /^\/run\s+(\S*)$/i.exec(head);
  if (run) return { of: 'run', query: run[1]!.toLowerCase() };
  const command = /^\/([a-z0-9_-]*)$/i.exec(head);
  if (!command || /^\/new(?:\s|$)/i.test(text)) return null;
  return { of: 'command', query: command[1]!.toLowerCase() };
}
