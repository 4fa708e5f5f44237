import type { Memory, MemoryKind, NewMemory } from '../api/memory';
import type { Channel, Message } from '../api/types';
import { agentName, oneLine } from '../lib/text';
import type { WorkspaceState } from '../state/workspace.svelte';

export const TEXT_MAX = 1000;
export const KINDS: Record<MemoryKind, string> = {
  fact: 'Fact',
  person: 'Person',
  project: 'Project',
  decision: 'Decision',
  preference: 'Preference',
  open_loop: 'Open question',
  todo: 'To do',
  reference: 'Reference',
  note: 'Note',
};
/** Kinds that admins can publish. */
const PUBLISHED: readonly MemoryKind[] = ['fact', 'person', 'project', 'decision'];
/** Kinds about people: outside of the conversation, agents use them only for that person. */
const OF_PEOPLE: readonly MemoryKind[] = ['person', 'preference'];

/** Subject of a new entry: the sender of a message, the user, or an agent. */
export type Subject = { message: Message } | { agent: string } | 'me';

/** One choice of "For". */
export interface Place {
  key: string;
  label: string;
  hint: string;
  form: Pick<NewMemory, 'scope' | 'thread_id' | 'agent_id' | 'visibility'>;
}
/** Choices in a conversation; `channel` is null if it is not known. */
function channelPlaces(
  channel: Channel | null,
  isPublic: boolean,
  { thread, kind }: { thread: string; kind: MemoryKind },
  ws: WorkspaceState,
): Place[] {
  const isOfPeople = OF_PEOPLE.includes(kind);
  const name = channel && (channel.kind === 'direct' ? ws.channels.title(channel) : `#${channel.name}`);
  const form = { scope: 'conversation', thread_id: thread } as const;
  const here: Place = {
    key: 'channel',
    label: 'This thread',
    hint: isOfPeople ? 'In this thread' : `Agents can use it in the threads of ${name ?? 'its channel'}.`,
    form: { ...form, visibility: 'channel' },
  };
  if (!isPublic || isOfPeople) return [here];
  const hint = `In every conversation in ${ws.workspace.name}`;
  return [
    here,
    {
      key: 'workspace',
      label: `Everyone in ${ws.workspace.name}`,
      hint,
      form: { ...form, visibility: 'workspace' },
    },
  ];
}
const ANYWHERE = 'Agents may repeat this wherever you ask them.';
/** Choices for a personal entry of the given reach, which comes first, or else for one of direct messages only. */
function personalPlaces(key: string, label: string, hint: string, form: Place['form']): Place[] {
  const own: Place = {
    key: 'direct',
    label: 'Me, only in my own chats with agents',
    hint: 'In your direct messages with agents, if nobody else is in them.',
    form: { ...form, visibility: 'direct' },
  };
  return [{ key, label, hint, form }, own];
}
/** Choices for a new entry, the default first. Without `own`, nothing can be remembered about the user. */
export function placesFor(subject: Subject, kind: MemoryKind, ws: WorkspaceState, own = true): Place[] {
  if (subject === 'me') {
    const all = personalPlaces('user', 'Me', ANYWHERE, { scope: 'user' });
    const single = ws.people.agents.map((a): Place => {
      const form = { scope: 'persona', agent_id: a.id } as const;
      return { key: a.id, label: `Me, only with ${agentName(a)}`, hint: ANYWHERE, form };
    });
    return [...all, ...single];
  }
  if ('agent' in subject)
    return [{ key: 'agent', label: '', hint: '', form: { scope: 'agent', agent_id: subject.agent } }];
  const m = subject.message;
  const channel = ws.channels.map.get(m.channel_id) ?? null;
  const isPublic = channel?.kind === 'public';
  const places = channelPlaces(channel, isPublic, { thread: m.thread_id, kind }, ws);
  // An agent's statement never becomes an entry about a person.
  if (own && m.author.type === 'human') {
    const hint = isPublic ? ANYWHERE : 'Agents may repeat this where everyone can read this message.';
    places.push(...personalPlaces('user', 'Me', hint, { scope: 'user' }));
  }
  return places;
}
/** Choices for an entry that exists; empty unless it is personal or belongs to a conversation. */
export function placesOf(entry: Memory, kind: MemoryKind, ws: WorkspaceState): Place[] {
  if (entry.scope === 'user' || entry.scope === 'persona') {
    // Whether an entry of direct messages can be used elsewhere depends on its sources.
    const isWide = entry.visibility === 'workspace' || !entry.source_message_ids.length;
    const visibility = isWide ? 'workspace' : 'channel';
    const hint = isWide ? ANYWHERE : 'Agents may repeat this where everyone can read its sources.';
    return personalPlaces(visibility, 'Me', hint, { visibility });
  }
  if (entry.scope !== 'conversation' || !entry.thread_id) return [];
  const channel = ws.channels.map.get(entry.channel_id ?? '') ?? null;
  const isPublic = entry.visibility === 'workspace' || channel?.kind === 'public';
  return channelPlaces(channel, isPublic, { thread: entry.thread_id, kind }, ws);
}

export const textOf = (m: Message): string => [...oneLine(m.content_plain)].slice(0, TEXT_MAX).join('');

/** Checks whether admins can publish the entry once its owner allows it. */
export const canShare = (m: Memory, kind = m.kind): boolean =>
  m.scope !== 'organization' && m.trust === 'person' && PUBLISHED.includes(kind);
export const canPublish = (m: Memory, ws: WorkspaceState): boolean =>
  ws.people.isAdmin && m.share_with_organization && m.status === 'active' && canShare(m);
/** True if the user can change the entry, as far as the client knows; the server decides. */
export function canChange(m: Pick<Memory, 'scope'> & Partial<Memory>, ws: WorkspaceState): boolean {
  if (m.scope === 'organization') return ws.people.isAdmin;
  if (m.scope === 'user' || m.scope === 'persona') return (m.user_id ?? ws.myId) === ws.myId;
  return ws.people.canWrite && m.origin !== 'file';
}

/** Request that creates the same entry again, without fields that are null. */
export function copyOf(m: Memory): NewMemory {
  const { text, kind, scope, visibility, source_message_ids, agent_id, thread_id } = m;
  return {
    text,
    kind,
    scope,
    visibility,
    source_message_ids,
    ...(agent_id ? { agent_id } : {}),
    ...(thread_id && scope === 'conversation' ? { thread_id } : {}),
  };
}

/** Origin of an entry without source messages. */
export function originOf(m: Memory, ws: WorkspaceState): string {
  const by = m.created_by === ws.myId ? 'you' : ws.people.userName(m.created_by);
  if (m.origin === 'file') return 'From a file of the agent';
  if (m.origin === 'published') return `Published by ${by}`;
  return m.origin === 'auto' ? 'From a conversation' : `Written by ${by}`;
}
export const ageOf = (days: number): string =>
  days < 1 ? 'from today' : days === 1 ? '1 day old' : `${days} days old`;

/** Text of an entry in a prompt, without the kind, name, and date that precede it. */
export const sentText = (line: string): string => line.replace(/^- \(.*?\d{4}-\d{2}-\d{2}\) /, '');
export const hiddenText = ({ name, count }: { name: string; count: number }): string =>
  count === 1
    ? `(1 personal memory of ${name} is hidden)`
    : `(${count} personal memories of ${name} are hidden)`;
