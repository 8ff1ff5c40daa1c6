"""Access of a program to its host."""
from _codebox.tools import ToolError, _Tools

__all__ = ["ToolError", "tools"]

tools = _Tools()
