import type { Fork, Resolution, ResolutionAction, ResolutionPoint } from '../api/types';
import type { Drafting } from '../state/drafting.svelte';

/** The resolution as it would be posted now, with the fields as they are on screen. */
export function previewOf(d: Drafting, fork: Fork | undefined, me: string): Resolution {
  const r = d.resolution;
  const { edit } = d;
  const lines = (list: ResolutionPoint[]) => list.map((x) => ({ ...x }));
  const now = new Date().toISOString();
  return {
    id: '',
    workspace_id: fork?.workspace_id ?? '',
    channel_id: fork?.channel_id ?? '',
    thread_id: fork?.thread_id ?? '',
    fork_id: d.fork,
    fork_title: fork?.title ?? '',
    generated_by: null,
    fallback_reason: null,
    covers_seq: 0,
    revision: 0,
    message_id: null,
    published_by: null,
    created_at: now,
    updated_at: now,
    published_at: null,
    ...r,
    status: 'draft',
    version: !r ? 1 : r.status === 'published' && d.dirty ? r.version + 1 : r.version,
    edited_by: d.dirty ? [...new Set([...(r?.edited_by ?? []), me])] : (r?.edited_by ?? []),
    headline: edit.headline,
    conclusion: edit.conclusion,
    key_points: lines(edit.key_points),
    open_questions: lines(edit.open_questions),
    deferred_items: lines(edit.deferred_items),
    action_items: edit.action_items.map((a): ResolutionAction => ({
      id: a.id ?? '',
      text: a.text,
      sources: a.sources ?? [],
      owner_id: a.owner_id ?? null,
      owner_name: a.owner_name ?? null,
      due: a.due ?? null,
      done: a.done ?? false,
    })),
  };
}
