import type { Task } from '../api/types';
import { parseSlash } from '../lib/slash';
import { addressedIn, mentionedIn } from './addressed';
import type { ComposerContext } from './composer-context';
import type { OutItem, Target } from './outbox-item';
import { isActive } from './tasks.svelte';
import type { WorkspaceParts } from './workspace-parts';

/** Thread or fork that a composer posts to; null if it starts a thread. */
export const placeOf = (context: ComposerContext): string | null =>
  context.conversation && (context.conversation.fork ?? context.conversation.thread);

/**
 * Reply in progress that a draft of its requester steers. A draft that mentions people or another agent is not for it, and a
 * draft that mentions several agents is for all of them.
 */
export function steeredTask(text: string, context: ComposerContext, ws: WorkspaceParts): Task | null {
  const place = placeOf(context);
  if (!place || parseSlash(text, ws.people.commands) || addressedIn(text, context, ws).length) return null;
  const { asked, off } = mentionedIn(text, context, ws);
  if (asked.length > 1 || off) return null;
  const own = ws.tasks
    .inPlace(place)
    .filter((t) => t.kind === 'reply' && isActive(t) && t.requested_by === ws.myId)
    .filter((t) => !asked[0] || t.agent_id === asked[0].id);
  return own.find((t) => t.status === 'running') ?? own[0] ?? null;
}

/** Running replies that the messages of composers on screen steer. */
export class Steering {
  #composers = new Map<string, () => string | null>();
  #notify: (text: string) => void;

  constructor(notify: (text: string) => void) {
    this.#notify = notify;
  }

  /** Adds the composer of a thread or fork, which returns the task that its draft steers. Returns a function that removes it. */
  add(place: string, steered: () => string | null): () => void {
    this.#composers.set(place, steered);
    return () => {
      if (this.#composers.get(place) === steered) this.#composers.delete(place);
    };
  }
  /** ID of the task that a message steers; undefined if it starts tasks as usual. */
  of(target: Target): string | undefined {
    return this.#composers.get(target.fork_id ?? target.thread_id ?? '')?.() ?? undefined;
  }
  /** Called when a message was posted as usual, because its task no longer takes messages. */
  missed(item: OutItem): void {
    const text = item.content.trim().slice(0, 40);
    this.#notify(
      `The reply had ended${text ? ` before “${text}” arrived` : ''}. Your message was posted as a new one.`,
    );
  }
}
