/** Links and buttons of a row. */
const CONTROLS = 'a[href], button';
/** The link to what is on screen. */
const CURRENT = ':is([aria-current="true"], [aria-current="page"])';

interface Options {
  /** Selector of the rows. */
  rows?: string;
  /** False if the page itself moves between rows. */
  arrows?: boolean;
}

/**
 * Makes the rows of a list one stop for Tab: the row that was focused last, else the current one, else the first. Up and Down move between
 * rows.
 */
export function roving(list: HTMLElement, { rows = 'li', arrows = true }: Options = {}) {
  let last: Element | null = null;
  const controls = (row: Element) => [...row.querySelectorAll<HTMLElement>(CONTROLS)];
  const reachable = () => [...list.querySelectorAll(rows)].filter((row) => controls(row).length);
  const update = () => {
    const all = reachable();
    const stop = all.find((row) => row === last) ?? all.find((row) => row.querySelector(CURRENT)) ?? all[0];
    for (const row of all) for (const control of controls(row)) control.tabIndex = row === stop ? 0 : -1;
  };
  const onfocusin = (e: FocusEvent) => {
    last = (e.target as Element).closest(rows) ?? last;
    update();
  };
  const onkeydown = (e: KeyboardEvent) => {
    const way = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
    const row = (e.target as Element).closest(rows);
    if (!way || !row || e.defaultPrevented || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
    const all = reachable();
    const next = all[all.indexOf(row) + way];
    if (!next) return;
    e.preventDefault();
    controls(next)[0]?.focus();
  };
  const seen = new MutationObserver(update);
  seen.observe(list, { childList: true, subtree: true, attributeFilter: ['aria-current'] });
  list.addEventListener('focusin', onfocusin);
  if (arrows) list.addEventListener('keydown', onkeydown);
  update();
  return {
    destroy() {
      seen.disconnect();
      list.removeEventListener('focusin', onfocusin);
      list.removeEventListener('keydown', onkeydown);
    },
  };
}
