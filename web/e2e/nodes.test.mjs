// Settings › Nodes on SQLite, where there is one node.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ env: { OPENVIBE_NODE_NAME: 'web-1' } });
const tabs = (p) => p.page.getByRole('navigation', { name: 'Settings' });
const row = (p, name) =>
  main(p).getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: name });
/** Counts requests for the nodes. */
function watch(p) {
  let count = 0;
  p.page.on('request', (request) => new URL(request.url()).pathname === '/v1/nodes' && count++);
  return () => count;
}

test('an admin of the oldest workspace sees the node', async () => {
  const requests = watch(ada);
  await ada.page.goto('/northwind');
  await box(ada.page, 'Start a thread in #general').waitFor();
  assert.equal(requests(), 0, 'nothing is asked at startup');
  await ada.page.goto('/northwind/settings/profile');
  await tabs(ada).getByRole('link', { name: 'Nodes' }).click();
  await main(ada).getByText('One server uses this database.').waitFor();
  const web1 = row(ada, 'web-1');
  await web1.getByText('This node').waitFor();
  const { data } = await api(ada, 'GET', 'nodes');
  assert.equal(data.length, 1);
  const [state, bus, version] = await web1.getByRole('cell').allInnerTexts();
  assert.deepEqual(
    [state, bus, version].map((text) => text.trim()),
    ['Ready', 'In this process', data[0].version],
  );
  const epoch = web1.getByTitle(data[0].epoch);
  assert.equal(await epoch.innerText(), data[0].epoch.slice(0, 8));
  assert.equal(await main(ada).getByRole('note').count(), 0);
  await inspect(ada, 'nodes-one');
});

test('the figures follow', async () => {
  await ada.page.goto('/northwind/settings/nodes');
  const sockets = row(ada, 'web-1').getByRole('cell').nth(4);
  await sockets.waitFor();
  const before = (await api(ada, 'GET', 'nodes')).data[0].sockets;
  const other = await ada.context.newPage();
  await other.goto('/northwind');
  await box(other, 'Start a thread in #general').waitFor();
  await ada.page.waitForFunction(
    ([cell, count]) => Number(cell.textContent) > count,
    [await sockets.elementHandle(), before],
  );
  await other.close();
});

test('members do not see the page, and their browsers send no requests for it', async () => {
  const requests = watch(bo);
  await bo.page.goto('/northwind/settings/nodes');
  await main(bo).getByText('Only admins can see this').waitFor();
  assert.equal(await tabs(bo).getByRole('link', { name: 'Nodes' }).count(), 0);
  assert.equal(requests(), 0);
});

test('the page belongs to the oldest workspace, also for its admins', async () => {
  await api(ada, 'POST', 'workspaces', { name: 'Southwind', slug: 'southwind' });
  await ada.page.goto('/southwind/settings/nodes');
  await main(ada).getByText('Only admins of this server’s first workspace can see this page.').waitFor();
  await tabs(ada).getByRole('link', { name: 'Members' }).waitFor();
  assert.equal(await tabs(ada).getByRole('link', { name: 'Nodes' }).count(), 0);
  await accessible(ada.page, 'nodes of another workspace’s server');
});
