import { copyText } from './secure';

/** Label of the button that collapses long code. */
export const LESS = 'Show less';

/** Syntax highlighting loads after the first paint; until then code is plain, and the block keeps its size. */
let hl: Promise<typeof import('./highlight')> | null = null;

export function highlightIn(root: ParentNode): void {
  const todo = root.querySelectorAll<HTMLElement>('code[data-lang]:not([data-lang=""]):not(.hljs)');
  if (!todo.length) return;
  hl ??= import('./highlight');
  hl.then(
    (m) => todo.forEach((el) => m.paint(el)),
    () => (hl = null), // plain code is readable; the next block tries again
  );
}

/** Highlights the code blocks of a node whenever its body has changed. */
export const highlighted = (node: HTMLElement, _body: string) => {
  highlightIn(node);
  return { update: () => highlightIn(node) };
};

/** Expands or collapses long code. */
function toggle(button: HTMLButtonElement): void {
  const open = button.closest('figure')!.classList.toggle('open');
  button.setAttribute('aria-expanded', String(open));
  button.textContent = open ? LESS : button.dataset.more!;
}

/** One listener for the buttons of all code blocks, which are sanitized HTML and have no handlers. */
export function installCopy(): () => void {
  const onclick = (e: MouseEvent) => {
    const more = (e.target as Element).closest<HTMLButtonElement>('[data-more]');
    if (more) return toggle(more);
    const button = (e.target as Element).closest<HTMLButtonElement>('[data-copy]');
    if (!button) return;
    const code = button.closest('figure')?.querySelector('code')?.textContent ?? '';
    void copyText(code).then((done) => (button.textContent = done ? 'Copied' : 'Press Ctrl+C'));
    setTimeout(() => (button.textContent = 'Copy'), 1600);
  };
  document.addEventListener('click', onclick);
  return () => document.removeEventListener('click', onclick);
}
