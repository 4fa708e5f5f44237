/** The box to write in, wherever the reader is. */
export const focusComposer = (): void =>
  document.querySelector<HTMLElement>('main textarea[data-composer]')?.focus();
