import { ApiError, Unreachable } from '../api/problem';
import type { Attachment } from '../api/types';
import { listed } from '../lib/text';
import type { OutItem } from './outbox-item';

const RETRY_MS = 3000;
const RETRY_MAX_MS = 60_000;

/** True if the file is not uploaded yet. */
export const onItsWay = (a: Attachment) => !a.id;
/** Changes to a message after the window that was uploading its files was closed. */
export const cutOff = (i: OutItem): Partial<OutItem> => {
  const names = i.attachments?.filter(onItsWay).map((a) => a.name) ?? [];
  const [were, their, them] = names.length > 1 ? ['were', 'their', 'them'] : ['was', 'its', 'it'];
  return {
    attachments: i.attachments?.filter((a) => a.id) ?? [],
    status: 'failed',
    error: `${listed(names)} ${were} not uploaded because ${their} window was closed. Select Try again to send the message without ${them}.`,
  };
};
/** Queue of a message: messages of one conversation are sent one after the other. */
export const queueOf = (i: OutItem) => i.fork_id ?? (i.direct ? i.channel_id : (i.thread_id ?? i.channel_id));
/** Delay if the server is busy or starting; null if it rejected the message. */
export const waitOf = (e: unknown): number | null => {
  if (e instanceof Unreachable) return e.timedOut ? null : RETRY_MS;
  if (!(e instanceof ApiError) || ![429, 502, 503, 504].includes(e.status)) return null;
  return Math.min((e.retryAfterS ?? 0) * 1000 || RETRY_MS, RETRY_MAX_MS);
};
/** True if the session ended: the message waits for the next sign-in. */
export const isSignedOut = (e: unknown): boolean => e instanceof ApiError && e.status === 401;
/** True if the message waits for a window to send it, or for the response. */
export const isSendable = (i: OutItem): boolean => i.status === 'sending' || i.status === 'waiting';
