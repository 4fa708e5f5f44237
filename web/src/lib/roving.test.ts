// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { roving } from './roving';

const row = (name: string, more = '') => `<li><a href="/${name}" id="${name}"${more}>${name}</a></li>`;

function list(html: string, options?: Parameters<typeof roving>[1]): HTMLElement {
  document.body.innerHTML = `<ul>${html}</ul>`;
  const ul = document.querySelector('ul')!;
  roving(ul, options);
  return ul;
}
const control = (id: string) => document.getElementById(id)!;
const stops = () =>
  [...document.querySelectorAll<HTMLElement>('a, button')].filter((c) => c.tabIndex === 0).map((c) => c.id);
const press = (key: string) =>
  document.activeElement!.dispatchEvent(
    new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }),
  );

test('Tab reaches the controls of the current row, and of the row that was focused last', () => {
  list(
    row('one') +
      row('two', ' aria-current="page"') +
      '<li><a href="/x" id="x">x</a><button id="b">b</button></li>',
  );
  expect(stops()).toEqual(['two']);
  control('x').focus();
  expect(stops()).toEqual(['x', 'b']);
  control('one').focus();
  expect(stops()).toEqual(['one']);
});

test('without a current row, Tab reaches the first one, also if it comes later', async () => {
  const ul = list(row('one'));
  expect(stops()).toEqual(['one']);
  ul.insertAdjacentHTML('afterbegin', row('zero'));
  await Promise.resolve();
  expect(stops()).toEqual(['zero']);
});

test('arrow keys move between rows, but not beyond the ends, and not if the page moves', () => {
  list(row('one') + row('two'));
  control('one').focus();
  press('ArrowDown');
  expect(document.activeElement!.id).toBe('two');
  expect(press('ArrowDown')).toBe(true);
  expect(document.activeElement!.id).toBe('two');
  press('ArrowUp');
  expect(document.activeElement!.id).toBe('one');
  list(row('one') + row('two'), { arrows: false });
  control('one').focus();
  press('ArrowDown');
  expect(document.activeElement!.id).toBe('one');
});
