// The client command of the conformance suite: has the workspace of client.test.mjs connect to the server of a scenario.
const { OPENVIBE_TEST_DRIVER, MCP_CONFORMANCE_CONTEXT = 'null' } = process.env;
const body = JSON.stringify({ url: process.argv[2], context: JSON.parse(MCP_CONFORMANCE_CONTEXT) });
await fetch(OPENVIBE_TEST_DRIVER, { method: 'POST', body });
