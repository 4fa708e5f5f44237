// @vitest-environment happy-dom
import { expect, test, vi } from 'vitest';
import { disableControls, OFFLINE_TEXT } from './controls';

test('controls that need the server are disabled, also later ones, until there is a connection', async () => {
  const used: string[] = [];
  const add = (name: string, needsServer: boolean) => {
    const button = document.body.appendChild(document.createElement('button'));
    button.title = name;
    button.toggleAttribute('data-online', needsServer);
    button.onclick = () => void used.push(name);
    return button;
  };
  const [react, send] = [add('React', true), add('Send', false)];
  const say = vi.fn();
  const enable = disableControls(document, say);
  const rename = add('Rename', true);
  await vi.waitFor(() => expect(rename.title).toBe(OFFLINE_TEXT));
  for (const button of [react, send, rename]) button.click();
  expect(used).toEqual(['Send']);
  expect(say).toHaveBeenCalledTimes(2);
  expect(react.getAttribute('aria-disabled')).toBe('true');
  expect(send.hasAttribute('aria-disabled')).toBe(false);
  enable();
  for (const button of [react, rename]) button.click();
  expect(used).toEqual(['Send', 'React', 'Rename']);
  expect([react.title, react.hasAttribute('aria-disabled')]).toEqual(['React', false]);
});
