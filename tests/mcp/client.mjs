// Client command for the conformance suite: makes the workspace of client.test.mjs connect to the scenario's server.
const { OPENVIBE_TEST_DRIVER, MCP_CONFORMANCE_CONTEXT = 'null' } = process.env;
const body = JSON.stringify({ url: process.argv[2], context: JSON.parse(MCP_CONFORMANCE_CONTEXT) });
await fetch(OPENVIBE_TEST_DRIVER, { method: 'POST', body });
