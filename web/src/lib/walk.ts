/** J and K move between messages; Tab then enters the tools of the focused one. */
export function walk(box: HTMLElement, way: 1 | -1): void {
  const all = [...box.querySelectorAll<HTMLElement>('article.msg')];
  const at = all.indexOf(document.activeElement?.closest('article.msg') as HTMLElement);
  const top = box.getBoundingClientRect().top;
  const first = all.findIndex((r) => r.getBoundingClientRect().bottom > top + 8);
  const next = all[at < 0 ? first : at + way];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: 'nearest' });
}
