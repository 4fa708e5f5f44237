import { LAST_USER, readJson, type KeyValueStore } from '../lib/storage';
import { isDraft } from '../state/drafts.svelte';
import { isItem } from '../state/outbox-store';

export interface SavedWork {
  /** Messages waiting to be sent, oldest first. */
  waiting: { id: string; text: string; created_at: string; failed: boolean }[];
  /** Drafts of messages and edits, newest first. */
  drafts: { id: string; text: string }[];
}

/**
 * Text that a person has written in this browser and that the server does not have, in all
 * workspaces.
 */
export function savedWork(store: KeyValueStore): SavedWork {
  const user = store.get(LAST_USER);
  if (!user) return { waiting: [], drafts: [] };
  const waiting = store
    .keys(`openvibe.out.${user}.`)
    .flatMap((key) => readJson(store, key, isItem) ?? [])
    .sort((a, b) => a.order - b.order)
    .map((i) => ({
      id: i.client_id,
      text: i.content || (i.attachments ?? []).map((a) => a.name).join(', '),
      created_at: i.created_at,
      failed: i.status === 'failed',
    }));
  const drafts = store
    .keys(`openvibe.draft.${user}.`)
    .filter((key) => /\.[ctde]:[^.]*$/.test(key))
    .flatMap((key) => {
      const draft = readJson(store, key, isDraft);
      return draft ? { id: key, ...draft } : [];
    })
    .sort((a, b) => b.at - a.at)
    .map(({ id, text }) => ({ id, text }));
  return { waiting, drafts };
}
