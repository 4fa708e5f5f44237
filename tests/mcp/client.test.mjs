// Tests that the client of tool servers passes the conformance suite in both revisions. For each scenario, the suite starts a server
// and runs `client.mjs` with its address, and `client.mjs` makes the workspace of this test connect to it.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';

import { check } from './suite.mjs';
import { Workspace } from './workspace.mjs';

const SCENARIOS = {
  '2025-11-25': ['initialize', 'tools_call', 'json-schema-2020-12-preservation', 'sse-retry'],
  '2026-07-28': [
    'tools_call',
    'request-metadata',
    'http-standard-headers',
    'http-custom-headers',
    'http-invalid-tool-headers',
    'json-schema-ref-no-deref',
    'json-schema-2020-12-preservation',
    'sep-2322-client-request-state',
  ],
};
/** Arguments of functions that need some. */
const ARGUMENTS = {
  add_numbers: { a: 17, b: 25 },
  lookup_user: { id: 'ada' },
  valid_tool: { region: 'eu' },
};

const workspace = new Workspace();
after(() => workspace.close());
await workspace.start();

let visits = 0;
/** Connects to a server and calls all its functions, or makes the calls that the scenario asks for. */
async function visit({ url, context }) {
  const name = `server${++visits}`;
  const functions = await workspace.connect(name, { url });
  const schema = functions.find((of) => of.name === 'json_schema_2020_12_tool')?.definition.inputSchema;
  const args = { ...ARGUMENTS, json_schema_echo: { schema } };
  const all = functions.map((of) => ({ name: of.name, arguments: args[of.name] }));
  for (const call of context?.toolCalls ?? all) await workspace.call(name, call.name, call.arguments);
}

/** Problems of visits; the suite ignores the status of the client command. */
const problems = [];
const driver = createServer(async (req, res) => {
  let text = '';
  for await (const piece of req) text += piece;
  await visit(JSON.parse(text)).catch((e) => problems.push(e.stack));
  res.end();
});
after(() => driver.close());
await new Promise((done) => driver.listen(0, '127.0.0.1', done));
const OPENVIBE_TEST_DRIVER = `http://127.0.0.1:${driver.address().port}`;

for (const [revision, scenarios] of Object.entries(SCENARIOS)) {
  for (const scenario of scenarios) {
    test(`the client conforms to ${revision}: ${scenario}`, async (t) => {
      const before = visits;
      const args = ['--command', 'node client.mjs', '--scenario', scenario, '--spec-version', revision];
      const checked = check(['client', ...args], { OPENVIBE_TEST_DRIVER });
      const output = await checked.finally(() => assert.deepEqual(problems.splice(0), []));
      assert.equal(visits, before + 1);
      // The suite does not fail without any checks, so this requires at least one.
      const [found] = /Passed: \d+\/[1-9].*/.exec(output) ?? assert.fail(output);
      t.diagnostic(`${found}, as expected`);
    });
  }
}
