// Runs scenarios of the protocol's conformance tests, which connect over HTTP: a bridge passes the messages on to standard input and
// output. Other scenarios test features that the server does not have, or tools with given names.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";

const SCENARIOS = ["server-initialize", "ping", "tools-list"];
const { CODEBOX, CODEBOX_HOME, CODEBOX_HOST, PATH } = process.env;
const sessions = new Map();

async function connect() {
  const stdio = new StdioClientTransport({ command: CODEBOX, args: ["mcp"], env: { CODEBOX_HOME, CODEBOX_HOST, PATH } });
  const http = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, http),
  });
  stdio.onmessage = (message) => http.send(message);
  http.onmessage = (message) => stdio.send(message);
  http.onclose = () => stdio.close();
  await http.start();
  await stdio.start();
  return http;
}

const server = createServer(async (request, response) => {
  let text = "";
  for await (const part of request) text += part;
  const body = text ? JSON.parse(text) : undefined;
  const known = sessions.get(request.headers["mcp-session-id"]);
  const http = known ?? (isInitializeRequest(body) ? await connect() : undefined);
  if (http) await http.handleRequest(request, response, body);
  else response.writeHead(404).end();
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const url = `http://127.0.0.1:${server.address().port}/mcp`;
const program = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
for (const scenario of SCENARIOS) {
  const child = spawn(process.execPath, [program, "server", "--url", url, "--scenario", scenario], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (part) => (output += part));
  child.stderr.on("data", (part) => (output += part));
  const status = await new Promise((ended) => child.on("exit", ended));
  const passed = /Passed: ([1-9]\d*)\/\1,/.test(output);
  if (status !== 0 || !passed) {
    console.log(`${scenario} failed with status ${status}:\n${output}`);
    process.exit(1);
  }
}
console.log("passed");
process.exit(0);
