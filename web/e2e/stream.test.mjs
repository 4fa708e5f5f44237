import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { build } from 'vite';
import { launch } from './lib/browser.mjs';
import { hostile } from './lib/hostile.mjs';

const FENCE = '```';
const DOCUMENTS = {
  answer: `Short: **yes**.\n\n1. **One.** 1,412 of *them*.\n2. Two \`body\`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n${FENCE}rust\nfn main() {\n    let a = "${FENCE}";\n}\n${FENCE}\n\nShip it.`,
  lists: '- a\n- b **bold** `x`\n\n- c\n\n1. one\n2. two\n\nend',
  fences: `x\n\n${FENCE}js\nlet a = 1;\n${FENCE}\ntail\n\n~~~\nraw\n~~~\n`,
  openFence: `a\n\n${FENCE}rust\nfn main() {`,
  headings: '# T\n\ntext\nmore\n\n## U\n> q\n> r\n\n---\nz',
  evil: '<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![p](http://evil.example/x.png)\n\n<script>alert(1)</script>\n\n<a href="javascript:alert(1)" onclick="alert(1)">y</a>',
  nested: `1. a\n   ${FENCE}py\n   print(1)\n   ${FENCE}\n2. b`,
  wide: '👩‍💻 **ok** 日本語\n\n| a | b |\n|---|---|\n| 1 | 2 |\n',
};
let browser;
let page;

before(async () => {
  const root = new URL('..', import.meta.url).pathname;
  const out = await build({
    root,
    configFile: false,
    logLevel: 'error',
    build: {
      write: false,
      minify: false,
      lib: { entry: `${root}e2e/lib/stream-entry.ts`, formats: ['iife'], name: 'entry' },
    },
  });
  browser = await launch();
  page = await browser.newPage();
  await page.evaluate([out].flat()[0].output[0].code);
});
after(() => browser?.close());

test('text streamed in pieces of any size renders like the whole text', async () => {
  const wrong = await page.evaluate(async (documents) => {
    const { StreamRenderer, render, NO_NAMES } = window.ovtest;
    const shape = (n) =>
      [...n.querySelectorAll('*')]
        .filter((x) => !x.classList.contains('blk') && !/^hljs-/.test(x.className))
        .map((x) => x.tagName)
        .join() +
      '§' +
      n.textContent.replace(/\s+/g, ' ').trim();
    const out = [];
    for (const [name, text] of Object.entries(documents)) {
      for (const step of [1, 3, 7, 40]) {
        const el = document.createElement('div');
        const r = new StreamRenderer(el, NO_NAMES);
        for (let i = step; i < text.length; i += step) r.update(text.slice(0, i));
        r.update(text, true);
        const whole = document.createElement('div');
        whole.innerHTML = render(text, NO_NAMES);
        if (shape(el) !== shape(whole)) out.push([name, step, shape(el), shape(whole)]);
      }
    }
    return out;
  }, DOCUMENTS);
  assert.deepEqual(wrong, []);
});

test('no active content gets into the page, streamed or whole, at any moment', async () => {
  const bad = await page.evaluate((text) => {
    const { StreamRenderer, render, NO_NAMES } = window.ovtest;
    const unsafe = 'script, img, iframe, [onerror], [onclick], [style], a[href^="javascript" i]';
    const out = [];
    const el = document.createElement('div');
    const r = new StreamRenderer(el, NO_NAMES);
    for (let i = 1; i <= text.length; i++) {
      r.update(text.slice(0, i), i === text.length);
      if (el.querySelector(unsafe)) out.push(text.slice(0, i));
    }
    const whole = document.createElement('div');
    whole.innerHTML = render(text, NO_NAMES);
    if (whole.querySelector(unsafe)) out.push('whole');
    const link = whole.querySelector('a[href]');
    if (link?.getAttribute('rel') !== 'noopener noreferrer nofollow' || link.target !== '_blank')
      out.push(link?.outerHTML);
    return out;
  }, DOCUMENTS.evil);
  assert.deepEqual(bad, []);
});

test('scrollable blocks can be reached by keyboard, and a list can start at any number', async () => {
  const kept = await page.evaluate(() => {
    const el = document.createElement('div');
    el.innerHTML = window.ovtest.render('```\nx\n```\n\n|a|\n|-|\n|1|\n\n7. seven', window.ovtest.NO_NAMES);
    return [
      ...el.querySelectorAll(
        'pre[tabindex="0"], .tablewrap[tabindex="0"], button[type=button], ol[start="7"]',
      ),
    ].map((n) => n.tagName);
  });
  assert.deepEqual(kept, ['BUTTON', 'PRE', 'DIV', 'OL']);
});

test('a final text that differs from the streamed one is painted in full', async () => {
  const text = await page.evaluate(() => {
    const { StreamRenderer, NO_NAMES } = window.ovtest;
    const el = document.createElement('div');
    const r = new StreamRenderer(el, NO_NAMES);
    r.update('[Vibe (AI)]: Mon');
    r.update('Monday.', true);
    return el.textContent.trim();
  });
  assert.equal(text, 'Monday.');
});

test('closed blocks are written once and never touched again', async () => {
  const same = await page.evaluate(() => {
    const { StreamRenderer, NO_NAMES } = window.ovtest;
    const el = document.createElement('div');
    const r = new StreamRenderer(el, NO_NAMES);
    r.update('# Head\n\nFirst para');
    const head = el.querySelector('h1');
    r.update('# Head\n\nFirst paragraph.\n\nSecond');
    const first = el.querySelector('p');
    r.update('# Head\n\nFirst paragraph.\n\nSecond one.', true);
    return el.querySelector('h1') === head && el.querySelector('p') === first;
  });
  assert.equal(same, true);
});

test('hostile text stays readable in every piece in which it is streamed', async () => {
  const messages = hostile(12 * 1024);
  assert.ok(messages.length >= 60);
  const wrong = await page.evaluate((messages) => {
    const { StreamRenderer, NO_NAMES } = window.ovtest;
    const out = [];
    for (const { name, text } of messages) {
      const el = document.createElement('div');
      document.body.append(el);
      try {
        const r = new StreamRenderer(el, NO_NAMES);
        for (let i = 1; i < 24; i++) r.update(text.slice(0, (text.length * i) / 24));
        r.update(`${text}\n\nThe end.`, true);
        if (!text.includes('<') && !/^```/.test(text) && !el.textContent.includes('The end.'))
          out.push([name, 'no end']);
      } catch (e) {
        out.push([name, String(e)]);
      }
      el.remove();
    }
    return out;
  }, messages);
  assert.deepEqual(wrong, []);
});

test('an open block above 8 KiB is plain text until it closes', async () => {
  const shown = await page.evaluate(() => {
    const { StreamRenderer, NO_NAMES } = window.ovtest;
    const el = document.createElement('div');
    const r = new StreamRenderer(el, NO_NAMES);
    const block = `**bold** ${'word '.repeat(1800)}`;
    r.update(block);
    const open = [el.querySelector('strong') === null, el.textContent.includes('Shown as plain text')];
    r.update(`${block}on`);
    open.push(el.textContent.endsWith('on'));
    r.update(`${block}on\n\nnext`, true);
    return [...open, el.querySelector('strong')?.textContent, el.textContent.includes('plain text')];
  });
  assert.deepEqual(shown, [true, true, true, 'bold', false]);
});
