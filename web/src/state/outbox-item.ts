import type { NewFork } from '../api/types';
import type { Unsent } from '../lib/rows';

/** Data to create a fork. */
export interface ForkStart {
  thread_id: string;
  body: NewFork;
}
/**
 * Destination of a message: a fork, else a thread. Without either it starts a thread; in a direct channel it goes to
 * the newest thread, if any.
 */
export interface Target {
  channel_id: string;
  thread_id: string | null;
  fork_id?: string | null;
  direct: boolean;
  /** For a new thread: its agent, or the thread whose agent it continues with. */
  agent_id?: string | null;
  from_thread_id?: string;
  /** False if a mention of the whole channel notifies nobody. */
  notify?: boolean | undefined;
  /** Running reply of the user that reads the message; if it has ended, the message is posted as usual. */
  steer?: string | undefined;
  /** Data to create the message's fork, which did not exist on the server when the message was written. */
  fork_start?: ForkStart | undefined;
}
/** A message that is not confirmed yet. */
export interface OutItem extends Unsent, Target {
  /**
   * True if it was sent at least once: its destination is then fixed, because a retry could otherwise post it
   * twice.
   */
  tried: boolean;
  /**
   * Without Web Locks: time at which the window that uploads its files last updated this entry, in ms since
   * 1970.
   */
  alive_at?: number;
  /** Position in the outbox: the time in ms, and later than the previous message. */
  order: number;
}
