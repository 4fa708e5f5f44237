import { ApiError, Unreachable } from '../api/problem';

export const PIECE_BYTES = 8 * 1024 * 1024;
const WAIT_MS_MAX = 30_000;
/** Maximum number of consecutive server errors, as opposed to network errors, before an upload stops. */
const FAULTS_MAX = 5;

export interface SendArchive {
  size: number;
  /** Bytes that the server has. */
  received: number;
  /** Sends the bytes from `start` up to `end`, and returns the number of bytes that the server has. */
  send: (start: number, end: number) => Promise<number>;
  /** Returns the number of bytes that the server has. */
  position: () => Promise<number>;
  /** Waits until the next attempt. */
  wait: (ms: number) => Promise<void>;
}

/** Sends an archive in pieces, and continues after a lost connection with the first byte that the server lacks. */
export async function sendArchive({ size, received, send, position, wait }: SendArchive): Promise<void> {
  // If everything was received, the last byte is sent again, which makes the server check the archive.
  const startAt = (known: number) => Math.min(known, size - 1);
  let start = startAt(received);
  let [losses, faults] = [0, 0];
  let isUnsure = false;
  for (;;) {
    try {
      if (isUnsure) start = startAt(await position());
      isUnsure = false;
      const known = await send(start, Math.min(start + PIECE_BYTES, size));
      [losses, faults] = [0, 0];
      if (known >= size) return;
      start = known;
    } catch (e) {
      const ms = retryMs(e, losses++);
      if (ms === null || (!(e instanceof Unreachable) && ++faults > FAULTS_MAX)) throw e;
      isUnsure = true;
      if (ms > 0) await wait(ms);
    }
  }
}

/** Time until the next attempt; null if it would fail again. */
function retryMs(e: unknown, losses: number): number | null {
  const backoff = Math.min(1000 * 2 ** losses, WAIT_MS_MAX);
  if (e instanceof Unreachable) return backoff;
  if (!(e instanceof ApiError)) return null;
  if (e.code === 'wrong_offset') return 0;
  if (e.code === 'low_disk_space' || e.code === 'quota_exceeded') return null;
  if (e.status === 429 || e.status >= 500) return e.retryAfterS ? e.retryAfterS * 1000 : backoff;
  return null;
}
