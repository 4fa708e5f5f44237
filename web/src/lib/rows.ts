import type { Snippet } from 'svelte';
import type { Attachment, Message, Task } from '../api/types';
import { BEFORE_ALL_SEQS } from './messages';
import { dayOf } from './time';

/** `uploading`: its files are still uploading. */
export type Sending = 'uploading' | 'sending' | 'waiting' | 'failed';
/** A message in the outbox that is not confirmed yet. */
export interface Unsent {
  client_id: string;
  content: string;
  attachments?: Attachment[];
  created_at: string;
  status: Sending;
  error: string | null;
}
export interface MessageRow {
  kind: 'message';
  key: string;
  message: Message;
  follows: boolean;
  day: string | null;
  isNew: boolean;
  unsent: Unsent | null;
  /** Trigger message of a reply, unless it is directly above. */
  replyTo: Message | null;
  /** True for a failure notice whose trigger message got a reply later. */
  settled: boolean;
}
/** A reply that has no text yet: its row is reserved until the message arrives. */
export interface TaskRow {
  kind: 'task';
  key: string;
  task: Task;
  day: null;
  isNew: false;
  replyTo: Message | null;
}
export type Row = MessageRow | TaskRow;
/** Content above a message that is not part of the conversation. */
export interface RowLine {
  /** ID of the message that follows. */
  above: string;
  content: Snippet;
}

export interface RowsInput {
  messages: readonly Message[];
  /** Tasks of this conversation. */
  tasks: readonly Task[];
  unsent: readonly Unsent[];
  unreadFrom: string | null;
  /** ID of the message below a line; this message begins a group. */
  below?: string | undefined;
  /** True if the newest message is loaded, so that unsent messages and pending replies may follow. */
  atEnd: boolean;
  me: { id: string; name: string; avatar_url: string | null };
}

const GROUP_MS = 5 * 60_000;
const isActive = (t: Task) => t.status === 'queued' || t.status === 'running';

/** A sent message keeps the key of its optimistic row, so that the echo does not create a new row. */
const keyOf = (m: Message) => {
  // The messages of a run share its task.
  if (m.author.type === 'agent' && m.metadata.task_id && !m.metadata.run_id) return m.metadata.task_id;
  return m.author.type === 'human' && m.client_id ? `own:${m.client_id}` : m.id;
};

/** Deleted messages of people are shown as tombstones; deleted parts of a retried reply are not shown. */
export const isShown = (m: Message) => m.deleted_at === null || m.author.type === 'human';

export function buildRows({ messages, tasks, unsent, unreadFrom, below, atEnd, me }: RowsInput): Row[] {
  const rows: Row[] = [];
  const answered = new Set<string>();
  const retried = new Set(tasks.map((t) => t.retry_of));
  for (const m of messages) if (m.metadata.task_id) answered.add(m.metadata.task_id);

  // Only replies have rows.
  const waiting = tasks.filter((t) => !answered.has(t.id) && !t.reply_message_id && t.kind === 'reply');
  const stoppedAfter = (m: Message) =>
    waiting.filter((t) => t.trigger_message_id === m.id && t.status === 'cancelled' && !retried.has(t.id));

  const byId = new Map(messages.map((m) => [m.id, m]));
  const taskOf = new Map(tasks.map((t) => [t.id, t]));
  const triggerId = (m: Message) =>
    m.parent_id ?? taskOf.get(m.metadata.task_id ?? '')?.trigger_message_id ?? null;
  /** `seq` of the last reply to each trigger message: by any agent, and by each agent. */
  const answeredAt = new Map<string, number>();
  const keyOfReply = (trigger: string, agent: string | null) => `${trigger} ${agent ?? ''}`;
  for (const m of messages) {
    if (m.author.type !== 'agent' || m.state !== 'complete' || m.deleted_at || m.kind === 'notice') continue;
    const trigger = triggerId(m);
    if (trigger) for (const agent of [null, m.author.id]) answeredAt.set(keyOfReply(trigger, agent), m.seq);
  }
  /** A failure notice whose trigger message was answered later by the same agent, or by any agent if the task is not loaded. */
  const isSettled = (m: Message) => {
    const trigger = m.kind === 'notice' ? triggerId(m) : null;
    const agent = taskOf.get(m.metadata.task_id ?? '')?.agent_id ?? null;
    return trigger !== null && (answeredAt.get(keyOfReply(trigger, agent)) ?? BEFORE_ALL_SEQS) > m.seq;
  };
  let above: string | null = null;
  const questionOf = (id: string | null | undefined) => {
    const question = id && id !== above ? byId.get(id) : undefined;
    return question && !question.deleted_at ? question : null;
  };

  let before: Message | null = null;
  let lastDay: string | null = null;
  const push = (message: Message, pending: Unsent | null) => {
    const day = dayOf(message.created_at);
    const newDay = day !== lastDay;
    const isNew = message.id === unreadFrom;
    lastDay = day;
    rows.push({
      kind: 'message',
      key: pending ? `own:${pending.client_id}` : keyOf(message),
      message,
      follows: !newDay && !isNew && message.id !== below && before !== null && groups(before, message),
      day: newDay ? day : null,
      isNew,
      unsent: pending,
      replyTo:
        message.author.type === 'agent' || message.kind === 'notice' ? questionOf(triggerId(message)) : null,
      settled: isSettled(message),
    });
    before = message;
    above = message.id;
  };
  const hold = (task: Task) => {
    const replyTo = questionOf(task.trigger_message_id);
    rows.push({ kind: 'task', key: task.id, task, day: null, isNew: false, replyTo });
    before = null;
    above = task.id;
  };

  for (const m of messages) {
    if (isShown(m)) push(m, null);
    for (const t of stoppedAfter(m)) hold(t);
  }
  if (atEnd) {
    const here = new Set(messages.map((m) => m.client_id));
    for (const t of waiting) if (isActive(t)) hold(t);
    for (const u of unsent) if (!here.has(u.client_id)) push(draftMessage(u, me), u);
  }
  return rows;
}

function groups(a: Message, b: Message): boolean {
  return (
    a.author.type === 'human' &&
    b.author.type === 'human' &&
    a.author.id === b.author.id &&
    a.kind === 'text' &&
    b.kind === 'text' &&
    a.deleted_at === null &&
    Date.parse(b.created_at) - Date.parse(a.created_at) < GROUP_MS
  );
}

/** An unsent message as a `Message`, so that one row component shows both. */
export function draftMessage(u: Unsent, me: RowsInput['me']): Message {
  return {
    id: u.client_id,
    workspace_id: '',
    channel_id: '',
    thread_id: '',
    fork_id: null,
    parent_id: null,
    seq: Number.MAX_SAFE_INTEGER,
    author: { type: 'human', id: me.id, name: me.name, avatar_url: me.avatar_url },
    kind: 'text',
    state: 'complete',
    content: u.content,
    content_plain: u.content,
    mentions: [],
    reactions: [],
    attachments: u.attachments ?? [],
    metadata: {},
    client_id: u.client_id,
    created_at: u.created_at,
    edited_at: null,
    deleted_at: null,
  };
}

/** True if rows were added or removed at the start, so that the list must keep its position from the end. */
export function movedAtStart(before: readonly Row[], after: readonly Row[]): boolean {
  const a = before[0]?.key;
  const b = after[0]?.key;
  if (!a || !b || a === b) return false;
  return after.some((r) => r.key === a) || before.some((r) => r.key === b);
}
