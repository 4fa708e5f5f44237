/** Keys without a modifier: a switch for all of them, and Z for what a toast offers to undo. */
import { isComposing, type Stroke } from './keys';
import { device } from './storage';

const CHOICE = 'openvibe.single-keys';

export const singleKeys = (): boolean => device.get(CHOICE) !== 'off';
export const setSingleKeys = (on: boolean): void => void device.set(CHOICE, on ? 'on' : 'off');

/** Checks for the key of a single character that is pressed outside of a field. */
export function isSingleKey(e: Stroke, target: Element | null): boolean {
  if (isComposing(e) || e.key.length !== 1 || e.key === ' ' || e.ctrlKey || e.metaKey || e.altKey)
    return false;
  return !target?.closest('input, textarea, select, [contenteditable]');
}

/** Presses the Undo button of the toast; the inbox has its own key. */
function undo(): boolean {
  const button = document.querySelector<HTMLElement>('.toast .btn');
  if (button?.textContent !== 'Undo' || document.querySelector('dialog[open], .inbox')) return false;
  button.click();
  return true;
}

export function onSingleKey(e: KeyboardEvent): void {
  if (!isSingleKey(e, e.target as Element | null)) return;
  if (!singleKeys())
    e.stopImmediatePropagation(); // before any other listener
  else if (e.key === 'z' && undo()) e.preventDefault();
}
if (typeof addEventListener === 'function') addEventListener('keydown', onSingleKey, true);
