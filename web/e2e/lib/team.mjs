// A server, a browser, and signed-in people for one test file; everything is closed after the last test.
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { inviteLink, joinBy, launch, person, setUp } from './browser.mjs';
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
    await setUp(team.ada.page);
    if (team.bo) await joinBy(team.bo.page, await inviteLink(team.ada.page));
    return team;
  } catch (e) {
    await close();
    throw e;
  }
}

/** Sends an API request with the session of this person's browser, without a page. */
export async function api(p, method, path, data, headers = {}) {
  const base = new URL(p.page.url()).origin;
  const answer = await p.page.request.fetch(`${base}/v1/${path}`, {
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
