/** True for a key that leaves a conversation for the list beside it: Left, unless one is typing, or Escape. */
export function isBackKey(e: KeyboardEvent): boolean {
  const target = e.target as Element;
  if (e.defaultPrevented || target.closest('dialog, [popover]')) return false;
  if (e.metaKey || e.ctrlKey || e.altKey || e.shiftKey) return false;
  if (e.key === 'Escape') return true;
  return e.key === 'ArrowLeft' && !target.closest('input, textarea, select, [contenteditable]');
}
