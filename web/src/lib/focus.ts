/** A conversation with its box to write in: a thread, or a dive beside it. On a phone the dive covers the thread. */
export function zoneOf(el: Element | null): HTMLElement | null {
  const own = el?.closest<HTMLElement>('[data-zone]');
  if (own) return own;
  const all = [...document.querySelectorAll<HTMLElement>('[data-zone]')];
  return (innerWidth <= 720 ? all.at(-1) : all[0]) ?? null;
}

/** The box to write in, where the reader is. */
export const focusComposer = (from: Element | null = document.activeElement): void => {
  const box = 'textarea[data-composer]';
  const own = zoneOf(from)?.querySelector<HTMLElement>(box);
  (own ?? document.querySelector<HTMLElement>(`main ${box}`))?.focus();
};

const LOOK_MS = 3000;
/** A card that is about to be shown gets the focus as soon as it is there; its row, if only that comes. */
export function focusCard(message: string, until = performance.now() + LOOK_MS): void {
  const row = document.getElementById(`m-${message}`);
  const card = row?.querySelector<HTMLElement>('[data-result]');
  if (card) card.focus();
  else if (performance.now() < until) requestAnimationFrame(() => focusCard(message, until));
  else row?.focus();
}
