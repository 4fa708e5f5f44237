import type { Message, Reaction } from '../api/types';

/** Sequence number below those of all messages: imported messages have negative ones. */
export const BEFORE_ALL_SEQS = -(2 ** 40);

/** Pure operations on a list of messages sorted by `seq`. Each returns the same array if nothing changed. */
export function insert(list: Message[], message: Message): Message[] {
  const at = list.findIndex((m) => m.id === message.id);
  if (at >= 0) return list[at] === message ? list : list.with(at, message);
  let i = list.length;
  while (i > 0 && list[i - 1]!.seq > message.seq) i--;
  return list.toSpliced(i, 0, message);
}

export function replace(list: Message[], message: Message): Message[] {
  const at = list.findIndex((m) => m.id === message.id);
  return at < 0 ? list : list.with(at, message);
}

export function setReactions(list: Message[], id: string, reactions: Reaction[]): Message[] {
  const at = list.findIndex((m) => m.id === id);
  return at < 0 ? list : list.with(at, { ...list[at]!, reactions });
}

/** Merges a page from the server into the list. Messages in the list win: events have updated them. */
export function merge(list: Message[], page: readonly Message[]): Message[] {
  const known = new Set(list.map((m) => m.id));
  const fresh = page.filter((m) => !known.has(m.id));
  return fresh.length ? [...list, ...fresh].sort((a, b) => a.seq - b.seq) : list;
}

export function toggled(reactions: Reaction[], emoji: string, user: string, on: boolean): Reaction[] {
  const found = reactions.find((r) => r.emoji === emoji);
  if (!found) return on ? [...reactions, { emoji, user_ids: [user], agent_ids: [] }] : reactions;
  const others = found.user_ids.filter((u) => u !== user);
  const user_ids = on ? [...others, user] : others;
  return user_ids.length || found.agent_ids.length || found.bot_ids?.length
    ? reactions.map((r) => (r === found ? { ...r, user_ids } : r))
    : reactions.filter((r) => r !== found);
}

export const isFrom = (m: Message, user: string): boolean =>
  m.author.type === 'human' && m.author.id === user;

/** Checks whether a message counts as unread for `me` in its thread or fork: messages of others, except notices. */
export const countsInPlace = (m: Message, me: string): boolean =>
  !isFrom(m, me) && m.kind !== 'notice' && m.deleted_at === null;
/** Checks whether a message counts as unread for `me` in its channel: those of forks do not. */
export const counts = (m: Message, me: string): boolean => m.fork_id === null && countsInPlace(m, me);

export const mentionsMe = (m: Message, me: string): boolean =>
  !isFrom(m, me) &&
  (m.mentions.some((x) => (x.type === 'user' && x.id === me) || x.type === 'group') || tellsMe(m, me));

/**
 * True for the resolution message of a fork in which the user took part, or that assigns the user an action
 * item.
 */
const tellsMe = (m: Message, me: string): boolean => m.metadata.notify_user_ids?.includes(me) ?? false;
