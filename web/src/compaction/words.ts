import type { WorkspacePolicy } from '../api/agent-types';
import type { Compaction, CompactionItem, CompactionItems, SentWindow } from '../api/compactions';
import type { MemoryKind } from '../api/memory';
import { ApiError, errorMessage, type ErrorCode } from '../api/problem';
import type { Message } from '../api/types';
import { isShown } from '../lib/rows';
import { listed } from '../lib/text';
import { plural, since } from '../lib/time';
import { KINDS } from '../memory/words';

/** Value of a record's model if it was made without one. */
const BUILT_IN = 'builtin';
const nf = new Intl.NumberFormat('en');

const PROBLEMS: Partial<Record<ErrorCode, string>> = {
  compaction_running: 'The earlier messages are already being summarized. Wait until this is done.',
  nothing_to_compact: 'There is nothing to summarize yet: agents read the newest messages in full.',
};
export const problemText = (e: unknown): string =>
  (e instanceof ApiError && e.code && PROBLEMS[e.code]) || errorMessage(e);

/** ID of the loaded message above which the line is shown; null if the start of the window is not on this page. */
export function lineAt(messages: readonly Message[], window: SentWindow | null): string | null {
  const at = window ? messages.findIndex((m) => m.seq >= window.from_seq) : -1;
  // If it is the first loaded message, the window may begin earlier.
  return at > 0 ? (messages.slice(at).find(isShown)?.id ?? null) : null;
}

/** Records that the summary contains. */
export function recordsIn(all: readonly Compaction[], window: SentWindow | null): Compaction[] {
  const byId = new Map(all.map((record) => [record.id, record]));
  return (window?.compaction_ids ?? []).flatMap((id) => byId.get(id) ?? []);
}

/** Text of the line; empty if nothing is summarized. `records` are those of the window. */
export function lineText(records: readonly Compaction[], window: SentWindow | null): string {
  const total = window?.message_count ?? 0;
  const expanded = records.filter((record) => record.state === 'expanded');
  const original = expanded.reduce((sum, record) => sum + record.message_count, 0);
  const above = (n: number) => (n === 1 ? 'message above' : `${n} messages above`);
  if (!total) return '';
  if (expanded.length && expanded.length === records.length)
    return `Agents read the original ${above(total)}`;
  return `Agents read a summary of the ${above(Math.max(total - original, 1))}`;
}

/**
 * State of the summary. `retryAt`: time at which a failed pass is retried. `isRemade`: the user requested a
 * new summary, so it can be outdated although no message changed.
 */
export function stateText(outdated: number, retryAt: string | null, isRemade: boolean): string {
  if (retryAt) return `Not summarized yet. Next try at ${since(retryAt)}`;
  if (isRemade) return 'Updating…';
  return outdated ? 'A message changed. Updating…' : '';
}
export const isOutdated = (record: Compaction): boolean =>
  record.state === 'stale' || record.state === 'blank';

/** Origin and size of a record. */
export const madeText = (record: Compaction): string =>
  record.model === BUILT_IN
    ? 'Written without a model'
    : `${record.model}, ${since(record.created_at)} · ${nf.format(record.tokens_before)} → ${nf.format(record.tokens_after)} tokens`;

/** First sentence of a record: its only line without a kind. */
export const gistOf = (record: Compaction): string =>
  /^- \d{4}-\d{2}-\d{2}: (.+)$/m.exec(record.summary_markdown)?.[1] ?? '';

const GROUPS: [keyof CompactionItems, MemoryKind][] = [
  ['open_loops', 'open_loop'],
  ['todo', 'todo'],
  ['decisions', 'decision'],
  ['people', 'person'],
  ['projects', 'project'],
  ['facts', 'fact'],
  ['references', 'reference'],
];
/** Sentences of a record in the order in which agents keep them. */
export const itemsOf = ({ memory_json }: Compaction): (CompactionItem & { kind: string })[] =>
  GROUPS.flatMap(([group, kind]) => memory_json[group].map((item) => ({ ...item, kind: KINDS[kind] })));

const COUNTED: Record<MemoryKind, [string, string]> = {
  open_loop: ['open question', 'open questions'],
  todo: ['to-do', 'to-dos'],
  decision: ['decision', 'decisions'],
  person: ['sentence about a person', 'sentences about people'],
  project: ['sentence about a project', 'sentences about projects'],
  preference: ['preference', 'preferences'],
  fact: ['fact', 'facts'],
  reference: ['reference', 'references'],
  note: ['note', 'notes'],
};
/** Note about the sentences that were not kept. */
export function leftOutText(record: Compaction): string {
  const counts = Object.entries(record.left_out as Partial<Record<MemoryKind, number>>);
  const kinds = counts.flatMap(([kind, n]) => (n ? [plural(n, ...COUNTED[kind as MemoryKind])] : []));
  return kinds.length
    ? `Left out: ${listed(kinds)}. A sentence is not kept if the messages do not confirm it, if it will not matter later, or if there is no room.`
    : 'No sentences were left out.';
}

/** How early the older messages of a conversation are replaced by a summary. */
export type Strategy = WorkspacePolicy['compaction']['default'];
export const STRATEGIES: Record<Strategy, string> = { off: 'Off', standard: 'Standard', aggressive: 'Early' };
