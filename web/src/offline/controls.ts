/** Marks controls that need the server, except for forms, which keep their text and show the error. */
const SELECTOR = '[data-online]';
export const OFFLINE_TEXT = 'You’re offline.';

/** Disables the controls that need the server. `say` is called for each attempt to use one. Returns a function that enables them. */
export function disableControls(root: Document, say: () => void): () => void {
  const titles = new Map<HTMLElement, string>();
  const mark = () => {
    for (const button of titles.keys()) if (!button.isConnected) titles.delete(button);
    for (const marked of root.querySelectorAll<HTMLElement>(SELECTOR)) {
      const button = marked.matches('button') ? marked : marked.querySelector<HTMLElement>('button');
      if (!button || titles.has(button)) continue;
      titles.set(button, button.title);
      button.setAttribute('aria-disabled', 'true');
      button.title = OFFLINE_TEXT;
    }
  };
  const onclick = (e: Event) => {
    if (!(e.target as Element | null)?.closest?.(SELECTOR)) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    say();
  };
  const observer = new MutationObserver(mark);
  mark();
  observer.observe(root, { childList: true, subtree: true });
  root.addEventListener('click', onclick, true);
  return () => {
    observer.disconnect();
    root.removeEventListener('click', onclick, true);
    for (const [button, title] of titles) {
      button.removeAttribute('aria-disabled');
      if (button.title === OFFLINE_TEXT) button.title = title;
    }
  };
}
