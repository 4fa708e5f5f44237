import type { CatchUp } from '../api/catch-up';
import { unreadCount } from '../lib/numbers';
import { listed } from '../lib/text';
import { plural } from '../lib/time';

/** Value of `by` if no model wrote the lines. */
const BUILT_IN = 'builtin';
/** Minimum number of new messages: fewer are read faster than a catch-up. */
const NEW_MIN = 10;
/** Minimum number of messages for a model call; the server rejects fewer. */
const WRITTEN_MIN = 20;

export const isWorthIt = (unread: number): boolean => unread >= NEW_MIN;
export const openText = (unread: number): string => `Catch up (${unreadCount(unread)} new)`;

/** True if a model can write the catch-up and has not yet. */
export const canBeWritten = (it: CatchUp): boolean => it.by === BUILT_IN && it.count >= WRITTEN_MIN;
export const byText = (it: CatchUp): string =>
  it.by === BUILT_IN
    ? `${plural(it.count, 'message')}, summarized without a model`
    : `${plural(it.count, 'message')}, summarized by ${it.by} for you`;

/** Note about the messages that the lines do not cover; empty if there are none. */
export function leftOutText({ left_out }: CatchUp): string {
  const parts = [
    left_out.lines ? plural(left_out.lines, 'sentence') : '',
    left_out.messages ? plural(left_out.messages, 'older message') : '',
  ].filter(Boolean);
  return parts.length ? `Left out: ${listed(parts)}.` : '';
}
