/** Focuses an element that replaces the one that had the focus; leaves the focus where the user put it. */
export function keepFocus(node: HTMLElement): void {
  const { activeElement } = document;
  if (!activeElement || activeElement === document.body || activeElement.matches('dialog')) node.focus();
}
