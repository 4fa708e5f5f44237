// Debian's Chromium, driven by playwright-core; each person has their own context.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const path = [
  process.env.OPENVIBE_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((p) => p && existsSync(p));
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = new URL('../../../test-artifacts/', import.meta.url).pathname;
export const PASSWORD = 'correct horse battery';
export const WIDE = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

export async function launch() {
  if (!path)
    throw new Error(
      'No Chromium found. Install it (Debian: apt-get install -y chromium) or set OPENVIBE_CHROMIUM.',
    );
  return chromium.launch({
    executablePath: path,
    headless: true,
    chromiumSandbox: false, // root and most CI containers cannot use the sandbox
    args: [
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-dev-shm-usage',
    ],
  });
}

// Logged by the browser for requests that a test aborts or that are rejected on purpose.
const EXPECTED = /Failed to load resource|WebSocket connection|net::ERR/;

/**
 * One person in one window. Errors that the page logs are recorded and fail the suite at the end. Names in tests are those of one
 * conversation at a time, as in a window of a laptop: `layout: 'split'` is the default of the client on wide screens.
 */
export async function person(
  browser,
  base,
  {
    theme = 'dark',
    viewport = WIDE,
    touch = false,
    serviceWorkers = 'block',
    layout = 'single',
    keep = process.env.E2E_KEEP ?? 'off',
  } = {},
) {
  const context = await browser.newContext({
    baseURL: base,
    viewport,
    colorScheme: theme,
    reducedMotion: 'reduce',
    hasTouch: touch,
    serviceWorkers, // `allow` only in tests of the service worker: its requests cannot be routed
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  if (layout === 'single')
    await context.addInitScript(() => {
      if (!localStorage.getItem('openvibe.layout')) localStorage.setItem('openvibe.layout', 'single');
    });
  // most tests expect what the server has at each start; `keep: 'on'` is the default of people
  if (keep === 'off') await context.addInitScript(() => localStorage.setItem('openvibe.keep', 'off'));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const errors = [];
  page.on('pageerror', (e) => errors.push(e.message));
  page.on('console', (m) => {
    if (m.type() === 'error' && !EXPECTED.test(m.text())) errors.push(m.text());
  });
  return { page, context, errors, close: () => context.close() };
}

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/**
 * Checks both themes for accessibility violations, and the page for horizontal scrolling. Themes differ only in colors, so the second
 * one is checked only with the rules about colors.
 */
export async function accessible(page, what) {
  const before = await page.evaluate(() => document.documentElement.dataset.theme);
  // Over CDP, so that the CSP need not be relaxed.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  for (const theme of ['dark', 'light']) {
    const { violations } = await page.evaluate(
      ({ theme, runOnly }) => {
        document.documentElement.dataset.theme = theme;
        const others = window.axe.getRules().filter((rule) => !rule.tags.includes('cat.color'));
        const off = others.map((rule) => [rule.ruleId, { enabled: false }]);
        const rules = theme === 'dark' ? {} : Object.fromEntries(off);
        // No rule that runs reads style sheets.
        const preload = { assets: ['media'] };
        return window.axe.run(document, { runOnly, rules, resultTypes: ['violations'], preload });
      },
      { theme, runOnly: RULES },
    );
    const text = violations
      .map(
        (v) =>
          `${v.id} (${v.impact}): ${v.help}\n${v.nodes
            .slice(0, 4)
            .map((n) => `    ${n.target.join(' ')} | ${n.failureSummary?.split('\n').slice(1, 3).join(' ')}`)
            .join('\n')}`,
      )
      .join('\n');
    assert.equal(violations.length, 0, `${what}, ${theme}:\n${text}`);
  }
  await page.evaluate((t) => (document.documentElement.dataset.theme = t), before);
  await fits(page, what);
}
export async function fits(page, what) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${what} scrolls sideways by ${wide}px`);
}

export async function shot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: `${shots}${name}.png` });
}

// --- user actions, by stable accessible names ---

export const box = (page, name) => page.getByRole('textbox', { name, exact: true });
export const button = (page, name) => page.getByRole('button', { name, exact: true });
export const message = (page, text) => page.getByRole('article').filter({ hasText: text });

export async function setUp(
  page,
  { name = 'Ada Lindholm', email = 'ada@example.com', workspace = 'Northwind', path = '/' } = {},
) {
  await page.goto(path);
  await box(page, 'Your name').fill(name);
  await box(page, 'Email').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await box(page, 'Workspace name').fill(workspace);
  await button(page, 'Create workspace').click();
  await page.getByRole('button', { name: /^(Later|Continue)$/ }).click();
  await button(page, 'Skip').click();
  await box(page, 'Start a thread in #general').waitFor();
}
export async function inviteLink(page) {
  await button(page, 'Invite people').click();
  await button(page, 'Create invite link').click();
  const link = await page.getByLabel('Invite link').inputValue();
  await button(page, 'Done').click();
  return link;
}
export async function joinBy(page, link, { name = 'Bo Chen', email = 'bo@example.com' } = {}) {
  await page.goto(new URL(link).pathname);
  await box(page, 'Your name').fill(name);
  await box(page, 'Email').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: /^Join / }).click();
  await box(page, 'Start a thread in #general').waitFor();
}
export async function startThread(page, text, channel = 'general') {
  await box(page, `Start a thread in #${channel}`).fill(text);
  await page.keyboard.press('Enter');
  await box(page, 'Reply, or @mention an agent').waitFor();
}
export async function reply(page, text) {
  await box(page, 'Reply, or @mention an agent').fill(text);
  await page.keyboard.press('Enter');
}
