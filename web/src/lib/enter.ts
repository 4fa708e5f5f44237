import { isCommandKey, type Stroke } from './keys';

/** Whether Enter sends; `auto` depends on the keyboard. */
export type EnterChoice = 'auto' | 'on' | 'off';
export const ENTER_CHOICES = ['auto', 'on', 'off'] as const;

/** Only a touch screen, whose keyboard has no Shift-Enter. */
const isTouchOnly = (): boolean => {
  const matches = (query: string) => globalThis.matchMedia?.(query).matches === true;
  return matches('(pointer: coarse)') && !matches('(any-pointer: fine)');
};
export const enterSends = (choice: EnterChoice, touchOnly = isTouchOnly()): boolean =>
  choice === 'auto' ? !touchOnly : choice === 'on';

/** Effect of a key in a text box: send, a line break, or anything else. Ctrl- or Cmd-Enter always sends. */
export function enterEffect(e: Stroke, sends: boolean): 'send' | 'break' | null {
  if (e.key !== 'Enter' || e.altKey) return null;
  if (isCommandKey(e)) return 'send';
  return e.shiftKey || !sends ? 'break' : 'send';
}
