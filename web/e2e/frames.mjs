// Measures the frames of the client (docs/performance.md): `node --test e2e/frames.mjs`, about two minutes. Not part
// of the test suite, and asserts nothing, because times depend on the machine.
import { test } from 'node:test';
import { box, button, message, reply, startThread } from './lib/browser.mjs';
import { LONG } from './lib/model.mjs';
import { messageList, threadId } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const MESSAGES = 5000;
const SCROLL_MS_MAX = 120_000;
const GESTURE_PX = 18_000;
/** Pixels per second: 900 in each of 60 frames. */
const SPEED_PX = 54_000;
const STREAMS_MS = 8000;

const { ada, model } = await startTeam({ model: true, bo: null });
const { page } = ada;
const cdp = await page.context().newCDPSession(page);

/** Records frames and long tasks until `recorded` is called. */
const record = () =>
  page.evaluate(() => {
    const frames = [];
    const tasks = [];
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries()));
    observer.observe({ type: 'longtask' });
    let last = performance.now();
    let id = requestAnimationFrame(function next(now) {
      frames.push(now - last);
      last = now;
      id = requestAnimationFrame(next);
    });
    window.recorded = () => {
      cancelAnimationFrame(id);
      tasks.push(...observer.takeRecords());
      frames.sort((a, b) => a - b);
      const at = (share) => Math.round(frames[Math.floor(frames.length * share)] * 10) / 10;
      return {
        seconds: Math.round(frames.reduce((sum, ms) => sum + ms, 0) / 1000),
        frames: frames.length,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        long_tasks: tasks.length,
      };
    };
  });
const recorded = () => page.evaluate(() => window.recorded());
const pause = (ms) => page.evaluate((ms) => new Promise((done) => setTimeout(done, ms)), ms);

const content = (i) => {
  if (i % 20 === 0) return LONG;
  return `Message ${i}: ${'we could move the launch to Monday. '.repeat(1 + (i % 7))}`;
};

test('scroll', async () => {
  await startThread(page, 'The very first line');
  const path = `threads/${threadId(ada)}/messages`;
  const thread = page.url();
  await page.goto('/northwind/c/random');
  let next = 1;
  const post = async () => {
    while (next < MESSAGES) await api(ada, 'POST', path, { content: content(next++) });
  };
  await Promise.all([post(), post(), post(), post()]);
  await page.goto(thread);
  await message(page, `Message ${MESSAGES - 1}:`).waitFor();
  await messageList(ada).hover();
  await record();
  const first = message(page, 'The very first line');
  const started = performance.now();
  while (!(await first.isVisible()) && performance.now() - started < SCROLL_MS_MAX) {
    await cdp.send('Input.synthesizeScrollGesture', {
      x: 720,
      y: 400,
      yDistance: GESTURE_PX,
      speed: SPEED_PX,
      gestureSourceType: 'mouse',
    });
  }
  console.log('scroll', { reached_start: await first.isVisible(), ...(await recorded()) });
});

test('streams', async () => {
  model.rate = 100;
  model.answers.set('everything', `${LONG}\n\n`.repeat(20));
  await page.goto('/northwind');
  await startThread(page, 'The launch');
  await message(page, 'The launch').hover();
  await button(page, 'Deep dive from here').click();
  const explore = box(page, 'Explore with @vibe');
  await explore.fill('Tell me everything');
  await page.keyboard.press('Enter');
  await reply(page, '@vibe tell me everything');
  await page.locator('[aria-busy=true]').nth(1).waitFor();
  await pause(1000);
  await cdp.send('Emulation.setCPUThrottlingRate', { rate: 4 });
  await record();
  await pause(STREAMS_MS);
  console.log('streams', await recorded());
  await cdp.send('Emulation.setCPUThrottlingRate', { rate: 1 });
});
