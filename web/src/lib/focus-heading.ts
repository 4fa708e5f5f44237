const SEARCH_MS = 3000;

/**
 * Focuses the heading of a page that was opened by a link, as soon as it appears, so that screen readers continue
 * there. Does nothing if the focus is in the page already, in a dialog, or in a text.
 */
export function focusHeading(until = performance.now() + SEARCH_MS): void {
  const now = document.activeElement;
  if (now?.closest('main > :not(.skip), dialog, input, textarea, [popover]')) return;
  // A skeleton has a heading, too, and goes.
  const heading = document.querySelector<HTMLElement>('main :not(.skels) > h1');
  if (heading) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  } else if (performance.now() < until) requestAnimationFrame(() => focusHeading(until));
}
