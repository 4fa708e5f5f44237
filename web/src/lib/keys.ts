export type Command =
  | 'switcher'
  | 'search'
  | 'find'
  | 'next-unread-thread'
  | 'previous-unread-thread'
  | 'composer'
  | 'escape'
  | 'keys'
  | 'inbox'
  | 'next-message'
  | 'previous-message'
  | 'next-channel'
  | 'previous-channel'
  | 'next-unread'
  | 'previous-unread'
  | 'new-thread'
  | 'new-chat'
  | 'reply'
  | 'edit'
  | 'mark-unread'
  | 'dive';

/** On Apple platforms Ctrl-B, Ctrl-E, and Ctrl-F move the caret. */
const APPLE = /mac|iphone|ipad/i.test(
  (globalThis.navigator as Partial<Navigator> | undefined)?.platform ?? '',
);
export const isCommandKey = (s: Pick<Stroke, 'metaKey' | 'ctrlKey'>, apple = APPLE): boolean =>
  apple ? s.metaKey && !s.ctrlKey : s.metaKey || s.ctrlKey;

/**
 * Checks for a key that an input method handles. Safari ends a composition before the key event of the Enter that
 * ends it, which then has only the key code of input methods.
 */
export const isComposing = (e: { isComposing?: boolean; keyCode?: number }): boolean =>
  // eslint-disable-next-line no-restricted-syntax -- the only reader of the property
  e.isComposing === true || e.keyCode === 229;

export interface Stroke {
  key: string;
  metaKey: boolean;
  ctrlKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  isComposing?: boolean;
  keyCode?: number;
}

const PLAIN: Record<string, Command> = {
  '/': 'composer',
  '?': 'keys',
  j: 'next-message',
  k: 'previous-message',
  c: 'new-thread',
  i: 'inbox',
  r: 'reply',
  e: 'edit',
  u: 'mark-unread',
  d: 'dive',
  n: 'next-unread-thread',
  p: 'previous-unread-thread',
  '[': 'previous-unread-thread',
  ']': 'next-unread-thread',
};

/** Shortcuts do nothing while the user is typing, except those with a modifier. */
export function commandFor(s: Stroke, typing: boolean, apple = APPLE): Command | null {
  if (isComposing(s)) return null;
  const mod = isCommandKey(s, apple);
  if (mod && !s.altKey && s.key.toLowerCase() === 'k') return 'switcher';
  if (mod && s.shiftKey && !s.altKey && s.key.toLowerCase() === 'f') return 'search';
  if (mod && s.shiftKey && !s.altKey && s.key.toLowerCase() === 'o') return 'new-chat';
  if (mod && !s.shiftKey && !s.altKey && s.key.toLowerCase() === 'f') return 'find';
  if (s.altKey && !mod && (s.key === 'ArrowUp' || s.key === 'ArrowDown')) {
    const way = s.key === 'ArrowUp' ? 'previous' : 'next';
    return s.shiftKey ? `${way}-unread` : `${way}-channel`;
  }
  if (s.key === 'Escape') return 'escape';
  if (s.metaKey || s.ctrlKey || s.altKey || typing) return null;
  return PLAIN[s.key.toLowerCase()] ?? null;
}
