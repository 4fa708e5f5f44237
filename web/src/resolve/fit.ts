/** Grows a text field to the height of its text. Call it when the text changes other than by typing. */
export function fit(node: HTMLTextAreaElement, _text: string): { update(): void; destroy(): void } {
  const resize = () => {
    node.style.height = 'auto';
    node.style.height = `${node.scrollHeight + 2}px`; // the border
  };
  // The width also affects the height; a hidden field has no height until it is shown.
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    resize();
  });
  watch.observe(node);
  resize();
  return { update: resize, destroy: () => watch.disconnect() };
}
