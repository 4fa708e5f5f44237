/** What a text that begins with a slash asks of its composer. No state, no framework. */
export type Slash =
  /** Who answers here. `query`: what is typed of the agent's name. */
  | { name: 'agent'; query: string }
  /** A new thread with the same agent, which begins with `text` if there is some. */
  | { name: 'new'; text: string }
  /** A slash alone: the list of commands. */
  | { name: 'list' };

export const COMMANDS = [
  { name: 'agent', title: '/agent', note: 'Choose who answers here' },
  { name: 'new', title: '/new', note: 'Start a thread with the same agent' },
] as const;
export type CommandName = (typeof COMMANDS)[number]['name'];

/** A command stands at the very start; another word behind the slash is no command, and the text a message like any other. */
export function parseSlash(text: string): Slash | null {
  const m = /^\/(?:(agent|new)(?=\s|$)([\s\S]*)|\s*$)/i.exec(text);
  if (!m) return null;
  const rest = (m[2] ?? '').trim();
  switch (m[1]?.toLowerCase()) {
    case 'agent':
      return { name: 'agent', query: rest.replace(/^@/, '') };
    case 'new':
      return { name: 'new', text: rest };
    default:
      return { name: 'list' };
  }
}

/** A doubled slash, or one behind a backslash, before a word or alone: the text begins with the slash itself. */
const ESCAPED = /^[/\\](?=\/(?:[a-z][\w-]*(?:\s|$)|\s*$))/i;
export const isEscaped = (text: string): boolean => ESCAPED.test(text);
/** The message that a text becomes. */
export const unescaped = (text: string): string => text.replace(ESCAPED, '');

/** What of a command is still being typed: its name, or the agent's behind it. */
export type Typing = { of: 'command' | 'agent'; query: string } | null;
export function slashTyping(text: string, caret: number): Typing {
  const agent = /^\/agent(?:\s+@?([^\n]*))?$/i.exec(text);
  if (agent && caret >= '/agent'.length) return { of: 'agent', query: (agent[1] ?? '').trim().toLowerCase() };
  const command = /^\/([a-z]*)$/i.exec(text.slice(0, caret));
  const whole = command && /^(?:\s|$)/.test(text.slice(caret)) && !/^\/new(?:\s|$)/i.test(text);
  return whole ? { of: 'command', query: command[1]!.toLowerCase() } : null;
}
