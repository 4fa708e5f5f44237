// @vitest-environment happy-dom
import { expect, test, vi } from 'vitest';
import { focusHeading } from './focus-heading';

test('the heading of the page gets the focus, not that of its skeleton', async () => {
  document.body.innerHTML =
    '<nav><a href="/x">Go</a></nav><main><div class="skels"><h1>Loading</h1></div></main>';
  document.querySelector('a')!.focus();
  focusHeading();
  expect(document.activeElement?.tagName).toBe('A');
  document.querySelector('main')!.innerHTML = '<header><h1>Action items</h1></header>';
  await vi.waitFor(() => expect(document.activeElement?.textContent).toBe('Action items'));
});

test('the focus stays in a text, in a dialog, and in the page', () => {
  document.body.innerHTML = '<textarea></textarea><main><div><h1>Inbox</h1><button>Row</button></div></main>';
  for (const kept of ['textarea', 'button']) {
    document.querySelector<HTMLElement>(kept)!.focus();
    focusHeading();
    expect(document.activeElement?.tagName.toLowerCase()).toBe(kept);
  }
});
