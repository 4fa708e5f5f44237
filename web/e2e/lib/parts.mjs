// Locators for parts of the page, by stable accessible names, and helpers that use them. `p` is a person.
import { accessible, box, button, fits, PHONE, shot, WIDE } from './browser.mjs';

export const REPLY_BOX = 'Reply, or @mention an agent';

export const main = (p) => p.page.locator('main');
export const dialog = (p) => p.page.getByRole('dialog');
export const side = (p) => p.page.getByRole('navigation', { name: 'Workspace' });
export const composer = (p) => box(p.page, REPLY_BOX);
export const messageList = (p) => p.page.getByRole('region', { name: 'Messages', exact: true });
export const threadList = (p) => p.page.getByRole('region', { name: /^Threads in / });
export const threadRow = (p, title) => threadList(p).getByRole('listitem').filter({ hasText: title });
export const forkPanel = (p) => p.page.getByRole('region', { name: 'Deep dive', exact: true });
export const agentPanel = (p) => p.page.getByRole('region', { name: 'Agent', exact: true });
export const agentCard = (p, name) =>
  main(p)
    .getByRole('listitem')
    .filter({ has: p.page.getByRole('heading', { name }) });
/** Tab of an agent's page. */
export const agentTab = (p, name) =>
  p.page.getByRole('navigation', { name: 'Agent', exact: true }).getByRole('link', { name, exact: true });
/** Link to the editor of an agent, on its page. */
export const editLink = (p) => main(p).getByRole('link', { name: /^Edit/ });
/** Messages of an agent. */
export const answers = (p, name) => p.page.getByRole('article', { name: new RegExp(`^${name}, `) });
/** Waits for a toast that no earlier call has seen; each toast is a separate element. */
export const toast = (p, text) =>
  p.page
    .locator('.toast:not([data-seen])')
    .filter({ hasText: text })
    .evaluate((shown) => shown.setAttribute('data-seen', ''));
export const option = (p, name) => p.page.getByRole('option', { name });

/** ID of the thread in the address. */
export const threadId = (p) => /\/t\/(thread_\w+)/.exec(p.page.url())[1];

export const theme = (p, name) => p.page.evaluate((t) => (document.documentElement.dataset.theme = t), name);

/** Takes screenshots in both themes, and leaves the dark theme on. */
export async function pictures(p, name) {
  await shot(p.page, `${name}-dark`);
  await theme(p, 'light');
  await shot(p.page, `${name}-light`);
  await theme(p, 'dark');
}

/** Waits until no reply is in progress, because the next message of its requester would steer it. */
export const idle = (p) =>
  p.page.locator('.composer').getByRole('button', { name: /^Stop/ }).first().waitFor({ state: 'detached' });

/**
 * Checks accessibility and takes screenshots, in both themes and at both widths, and checks that nothing
 * scrolls sideways at 320 px.
 */
export async function inspect(p, name) {
  for (const [width, viewport] of [
    ['wide', WIDE],
    ['390', PHONE],
  ]) {
    await p.page.mouse.move(0, 0);
    await p.page.setViewportSize(viewport);
    await accessible(p.page, `${name}, ${width}`);
    for (const t of ['dark', 'light']) {
      await theme(p, t);
      await shot(p.page, `${name}-${width}-${t}`);
    }
  }
  await p.page.setViewportSize({ width: 320, height: 700 });
  await fits(p.page, `${name} at 320 px`);
  await p.page.setViewportSize(WIDE);
}

export async function signIn(p, email) {
  await p.page.goto('/login');
  await box(p.page, 'Email').fill(email);
  await p.page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await button(p.page, 'Sign in').click();
  await box(p.page, 'Start a thread in #general').waitFor();
}
