// Uses the MCP server with the official client for TypeScript.

import assert from "node:assert";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const { CODEBOX, CODEBOX_HOME, CODEBOX_HOST, PATH } = process.env;
const client = new Client({ name: "test", version: "1" });
await client.connect(
  new StdioClientTransport({ command: CODEBOX, args: ["mcp"], env: { CODEBOX_HOME, CODEBOX_HOST, PATH } }),
);
const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options);

const names = (await client.listTools()).tools.map((tool) => tool.name);
for (const name of ["run", "run_blocks", "explain", "session_new", "session_exec", "session_fork"]) {
  assert(names.includes(name), name);
}
// The client checks each structured result by the schema of its tool.
const ran = await call("run", { code: "display({ a: 1 }); console.log(1)", language: "javascript" });
assert.strictEqual(ran.structuredContent.stdout, "1\n");
const failed = await call("run", { code: "1 / 0" });
assert(failed.isError);
assert.strictEqual(failed.structuredContent.error.name, "ZeroDivisionError");
const {
  structuredContent: {
    sessions: [session],
  },
} = await call("session_new", { language: "typescript" });
await call("session_exec", { session, code: "let x: number = 41" });
const cell = await call("session_exec", { session, code: "x + 1" });
assert.strictEqual(cell.structuredContent.value, "42");
const lines = [];
const code = "import time\nfor i in range(3):\n    print('step', i, flush=True); time.sleep(0.3)";
await call("run", { code }, { onprogress: ({ message }) => lines.push(message) });
assert(lines.length > 0 && lines[0].startsWith("step "), `${lines}`);
const abort = new AbortController();
const endless = call("run", { code: "while True: pass" }, { signal: abort.signal });
abort.abort();
await assert.rejects(endless);
const blocks = await call("run_blocks", { text: "```js\n1\n```\n" });
assert(blocks.structuredContent.success);
await client.close();
console.log("passed");
