import type { Agent } from '../api/types';
import { handlesIn } from '../lib/markdown-later';
import { silencedIn, type ComposerContext } from './composer-context';
import type { WorkspaceParts } from './workspace-parts';

/** Agents that a draft mentions, except for one that is off in the channel, and one that is turned off. */
export function mentionedIn(
  text: string,
  { channel }: ComposerContext,
  { people }: WorkspaceParts,
): { asked: Agent[]; off: Agent | undefined; inactive: Agent | undefined } {
  const silenced = silencedIn(channel);
  const { handles } = people;
  const inactive = [...people.agentsById.values()].filter(
    (a) => a.status === 'inactive' && a.mentionable && !a.is_system && people.hasAccess(a),
  );
  const found = handlesIn(text, (h) => handles.has(h) || inactive.some((a) => a.name === h));
  const agents = [...found].flatMap((h) => people.agentByHandle(h) ?? []);
  return {
    asked: agents.filter((a) => a.id !== silenced),
    off: agents.find((a) => a.id === silenced),
    inactive: inactive.find((a) => found.has(a.name)),
  };
}

/** Handles that stand for the members of a channel. */
export const GROUPS = ['everyone', 'here', 'channel'];
/** Mentioned people and groups: in a thread that people share, its agent does not reply to such a message. */
export function addressedIn(text: string, context: ComposerContext, ws: WorkspaceParts): string[] {
  if (context.channel.kind === 'direct' || context.conversation?.fork) return [];
  const handles = [...handlesIn(text, (h) => ws.people.handles.has(h))];
  if (mentionedIn(text, context, ws).asked.length) return [];
  const names = ws.people.roster.filter((m) => handles.includes(m.handle)).map((m) => m.name);
  return [...names, ...GROUPS.filter((g) => handles.includes(g)).map((g) => `@${g}`)];
}
