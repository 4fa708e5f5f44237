/** A conversation with its composer: a thread, or a fork beside it. On a phone the fork covers the thread. */
export function zoneOf(el: Element | null): HTMLElement | null {
  const own = el?.closest<HTMLElement>('[data-zone]');
  if (own) return own;
  const all = [...document.querySelectorAll<HTMLElement>('[data-zone]')];
  return (innerWidth <= 720 ? all.at(-1) : all[0]) ?? null;
}

/** The composer of the conversation in which the user is. */
export const focusComposer = (from: Element | null = document.activeElement): void => {
  const box = 'textarea[data-composer]';
  const near = from?.closest('.composer') ?? zoneOf(from);
  const own = near?.querySelector<HTMLElement>(box);
  (own ?? document.querySelector<HTMLElement>(`main ${box}`))?.focus();
};

const SEARCH_MS = 3000;
/** Focuses the composer with a draft key as soon as it appears. */
export function focusComposerOf(place: string, until = performance.now() + SEARCH_MS): void {
  const box = document.querySelector<HTMLTextAreaElement>(`textarea[data-composer="${CSS.escape(place)}"]`);
  if (box) {
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  } else if (performance.now() < until) requestAnimationFrame(() => focusComposerOf(place, until));
}

/** Focuses a resolution message that is about to appear, or its row if the content does not load. */
export function focusCard(message: string, until = performance.now() + SEARCH_MS): void {
  const row = document.getElementById(`m-${message}`);
  const card = row?.querySelector<HTMLElement>('[data-result]');
  if (card) card.focus();
  else if (performance.now() < until) requestAnimationFrame(() => focusCard(message, until));
  else row?.focus();
}

const FIELD =
  ':is(input, select, textarea):not(:disabled, [readonly], [hidden], [type="hidden"], [tabindex="-1"])';
/** Initial focus of a dialog: the element that requests it, else the first field, else the main button. */
export function firstFocus(dialog: Element): HTMLElement | null {
  for (const sought of ['[autofocus]', FIELD, '.btn:is(.primary, .danger):enabled']) {
    const found = dialog.querySelector<HTMLElement>(sought);
    if (found) return found;
  }
  return null;
}

/** Focuses the messages of a thread that was just opened, unless the user is doing something else. */
export function focusMessages(zone: Element): void {
  const now = document.activeElement;
  const busy = now?.closest('input, textarea, select, dialog, aside, [popover]') || zone.contains(now);
  if (busy || document.querySelector('dialog[open]')) return;
  zone.querySelector<HTMLElement>('[role="region"][tabindex]')?.focus({ preventScroll: true });
}
