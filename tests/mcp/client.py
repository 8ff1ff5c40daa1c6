"""Uses the MCP server with the official client for Python."""

import asyncio
import os

from mcp import ClientSession, StdioServerParameters, stdio_client


def structured(result):
    # The names differ between the versions of the client.
    return getattr(result, "structuredContent", None) or result.structured_content


def is_error(result):
    return result.isError if hasattr(result, "isError") else result.is_error


async def main():
    environment = {name: os.environ[name] for name in ("CODEBOX_HOME", "CODEBOX_HOST", "PATH")}
    server = StdioServerParameters(command=os.environ["CODEBOX"], args=["mcp"], env=environment)
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert {"run", "run_blocks", "explain", "session_new", "session_exec", "session_fork"} <= names, names
        # The client checks each structured result by the schema of its tool.
        ran = await session.call_tool("run", {"code": "import matplotlib.pyplot as plt\nplt.plot([1])\nprint(1)"})
        assert structured(ran)["stdout"] == "1\n", ran
        assert [one.type for one in ran.content] == ["text", "image"], ran
        failed = await session.call_tool("run", {"code": "1 / 0"})
        assert is_error(failed) and structured(failed)["error"]["name"] == "ZeroDivisionError", failed
        created = await session.call_tool("session_new", {})
        [identity] = structured(created)["sessions"]
        await session.call_tool("session_exec", {"session": identity, "code": "x = 41"})
        cell = await session.call_tool("session_exec", {"session": identity, "code": "x + 1"})
        assert structured(cell)["value"] == "42", cell
        forks = await session.call_tool("session_fork", {"session": identity, "count": 2})
        assert len(structured(forks)["sessions"]) == 2, forks
        await session.call_tool("session_checkpoint", {"session": identity, "name": "a"})
        await session.call_tool("session_restore", {"session": identity, "name": "a"})
        listed = await session.call_tool("session_list", {})
        assert len(structured(listed)["sessions"]) == 3, listed
        blocks = await session.call_tool("run_blocks", {"text": "```py\n1\n```\n"})
        assert structured(blocks)["success"], blocks
        explained = await session.call_tool("explain", {"code": "print(1)"})
        assert structured(explained)["isolation"] == "wasm", explained
        stopped = await session.call_tool("session_stop", {"session": identity})
        assert structured(stopped)["done"], stopped


asyncio.run(main())
print("passed")
