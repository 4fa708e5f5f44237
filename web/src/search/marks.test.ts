import { expect, test } from 'vitest';
import { piecesOf } from './marks';

test('matches are marked, the rest is plain', () => {
  expect(piecesOf('the <mark>launch</mark> is on <mark>Mon</mark>day')).toEqual([
    { text: 'the ', hit: false },
    { text: 'launch', hit: true },
    { text: ' is on ', hit: false },
    { text: 'Mon', hit: true },
    { text: 'day', hit: false },
  ]);
});
test('HTML in a message stays text', () => {
  expect(piecesOf('&lt;img onerror=&quot;x()&quot;&gt; &amp;lt; <mark>a&#39;b</mark> &#x1F389;')).toEqual([
    { text: '<img onerror="x()"> &lt; ', hit: false },
    { text: "a'b", hit: true },
    { text: ' 🎉', hit: false },
  ]);
  expect(piecesOf('<b>not ours</b> &unknown; &#99999999;')).toEqual([
    { text: '<b>not ours</b> &unknown; &#99999999;', hit: false },
  ]);
  expect(piecesOf('')).toEqual([]);
});
