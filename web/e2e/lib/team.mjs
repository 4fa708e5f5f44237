// A server, a browser, and signed-in people for one test file; everything is closed after the last test.
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { box, launch, PASSWORD, person } from './browser.mjs';
import { Model } from './model.mjs';
import { Server } from './server.mjs';

/**
 * Starts the team. If `model` is true, a scripted model replies. `ada` creates the workspace and `bo` joins
 * it, each with the options of `person`; `bo: null` leaves Bo out.
 */
export async function startTeam({ env = {}, model = false, ada = {}, bo = {} } = {}) {
  const open = [];
  const close = async () => {
    for (const one of open.splice(0).reverse()) await one.close();
  };
  after(close);
  const opened = (one) => {
    open.push(one);
    return one;
  };
  try {
    const scripted = model ? opened(await new Model().start()) : null;
    const server = opened(new Server(scripted ? { OPENVIBE_MODEL_BASE_URL: scripted.base, ...env } : env));
    await server.start();
    const browser = opened(await launch());
    const team = { server, model: scripted, browser, ada: await person(browser, server.base, ada), bo: null };
    if (bo) team.bo = await person(browser, server.base, bo);
    await signUp(team.ada, server.base, { name: 'Ada Lindholm', email: 'ada@example.com' });
    await post(team.ada, server.base, 'workspaces', { name: 'Northwind' });
    if (team.bo) {
      const { token } = await post(team.ada, server.base, 'invites', { role: 'member' });
      await signUp(team.bo, server.base, { name: 'Bo Chen', email: 'bo@example.com', invite: token });
    }
    for (const one of [team.ada, team.bo]) {
      if (!one) continue;
      await one.page.goto('/');
      await box(one.page, 'Start a thread in #general').waitFor();
    }
    return team;
  } catch (e) {
    await close();
    throw e;
  }
}

const post = (p, base, path, data) => request(p, base, 'POST', path, data);

/** Creates an account and its session without the form, which first-start and admin test. */
const signUp = (p, base, account) => post(p, base, 'auth/signup', { password: PASSWORD, ...account });

/** Sends an API request with the session of this person's browser, without a page. */
export async function api(p, method, path, data, headers = {}) {
  return request(p, new URL(p.page.url()).origin, method, path, data, headers);
}

async function request(p, base, method, path, data, headers = {}) {
  const answer = await p.context.request.fetch(`${base}/v1/${path}`, {
    method,
    data,
    headers: { origin: base, ...headers },
  });
  const text = await answer.text();
  assert.ok(answer.ok(), `${method} ${path}: ${text}`);
  return text ? JSON.parse(text) : null;
}

/** Finds channel IDs and members of the workspace by name. */
export async function known(p) {
  const { channels, members } = await api(p, 'GET', 'snapshot');
  return {
    channelId: (name) => channels.find((c) => c.name === name).id,
    member: (name) => members.find((m) => m.name === name),
  };
}
