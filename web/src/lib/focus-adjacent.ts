const rows = () => [...document.querySelectorAll<HTMLElement>('main a[data-thread]')];

/** J and K move between threads in a channel's list; Enter opens the focused one. */
export function focusAdjacentThread(way: 1 | -1): boolean {
  const all = rows();
  if (!all.length) return false;
  const at = all.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? all[0] : all[at + way];
  next?.focus();
  return true;
}

/** Focuses the row of a thread if it is on screen. */
export function focusThread(id: string): boolean {
  const row = rows().find((a) => a.dataset.thread === id);
  row?.focus();
  return row !== undefined;
}

/** J and K move between messages; Tab then enters the tools of the focused one. */
export function focusAdjacentMessage(box: HTMLElement, way: 1 | -1): void {
  const all = [...box.querySelectorAll<HTMLElement>('article.msg')];
  const at = all.indexOf(document.activeElement?.closest('article.msg') as HTMLElement);
  const top = box.getBoundingClientRect().top;
  const first = all.findIndex((r) => r.getBoundingClientRect().bottom > top + 8);
  const next = all[at < 0 ? first : at + way];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: 'nearest' });
}
