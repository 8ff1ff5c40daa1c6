"""MCP server with tools that are unusual or hostile, for the tests of the client."""
import json
import os
import subprocess
import sys

ANY = {"type": "object"}
TREE = {"type": "array", "items": {"$ref": "#/properties/a"}}
TOOLS = {
    "echo": {"type": "object", "properties": {"x": {}}},
    "mail": {"type": "object", "properties": {"from": {"type": "string"}, "others": {}}, "required": ["from"]},
    "a-b": ANY,
    "a.b": ANY,
    "a_b": ANY,
    "c-d": ANY,
    "c.d": ANY,
    "lookahead": {"type": "object", "properties": {"x": {"pattern": "^(?!b)a+$"}}},
    "broken": {"type": "object", "properties": {"x": {"pattern": "("}}},
    "tree": {"type": "object", "properties": {"a": {"oneOf": [TREE, {**TREE, "minItems": 1}, {"type": "integer"}]}}},
    "big": ANY,
    "deep": ANY,
    "fail": ANY,
}
ENDLESS = "endless" in sys.argv

if "child" in sys.argv:
    # It outlives this process, unless its process group is ended.
    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with open(sys.argv[-1] + ".new", "w") as file:
        file.write(str(child.pid))
    os.rename(sys.argv[-1] + ".new", sys.argv[-1])
if "hang" in sys.argv:
    sys.stdin.read()

print("this line is for people", flush=True)
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    method, params = request.get("method"), request.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "test", "version": "1"}
    elif method == "tools/list" and ENDLESS:
        result = {"tools": [{"name": f"t{number}", "description": "x" * 100_000, "inputSchema": ANY}], "nextCursor": str(number)}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": schema} for name, schema in TOOLS.items()]}
    elif method == "tools/call":
        name = params["name"]
        text = {"big": "x" * 17_000_000, "deep": "[" * 200 + "]" * 200}.get(name, name)
        result = {"content": [{"type": "text", "text": text}], "isError": False}
        if name == "deep":
            result["structuredContent"] = {"a": json.loads(text)}
        if name == "fail":
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": "x" * 1_000_000}}), flush=True)
            continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
