// A server, a browser, and signed-in people for one test file; all of it is closed after the last test.
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { inviteLink, joinBy, launch, person, setUp } from './browser.mjs';
import { Model } from './model.mjs';
import { Server } from './server.mjs';

/**
 * `model`: a scripted model replies. `ada` creates the workspace and `bo` joins it, each with the options of `person`;
 * null leaves Bo out.
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

/** The API as this person's browser calls it, without a page. */
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

/** IDs of the workspace's channels, and its members, by name. */
export async function known(p) {
  const { channels, members } = await api(p, 'GET', 'snapshot');
  return {
    channelId: (name) => channels.find((c) => c.name === name).id,
    member: (name) => members.find((m) => m.name === name),
  };
}
