/** A text field as high as its text. Called again when the text changes from outside. */
export function fit(node: HTMLTextAreaElement, _text: string): { update(): void; destroy(): void } {
  const resize = () => {
    node.style.height = 'auto';
    node.style.height = `${node.scrollHeight + 2}px`; // the border
  };
  // Width changes the height too; a field that was hidden has none until it is shown.
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
