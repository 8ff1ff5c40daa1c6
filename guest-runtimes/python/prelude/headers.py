"""The headers of an HTTP answer, without the parser of mail where they are as nearly all are.

That parser takes a tenth of a small request's time. What it would make of these lines is known; any others are its own.
"""
import http.client
import re

# Lines that each are a name, a colon and a value: no part of one before, no lone carriage return, nothing of mail's.
_plain = re.compile(r"(?:[!-9;-~]+:[^\r\n]*\r\n)+").fullmatch
_pairs = re.compile(r"([!-9;-~]+):[ \t]*([^\r\n]*)\r\n").findall
# With such a content, what follows the headers is looked at too.
_parted = re.compile(r"multipart|message/", re.IGNORECASE).search

_parse = getattr(http.client, "_parse_header_lines", None)


def parse(lines, kind=http.client.HTTPMessage):
    """As `http.client._parse_header_lines`."""
    text = b"".join(lines).decode("iso-8859-1")
    if kind is not http.client.HTTPMessage or not _plain(text) or _parted(text):
        return _parse(lines, kind)
    message = kind()
    message._headers = _pairs(text)
    message._payload = ""
    return message


def install():
    if _parse is not None:
        http.client._parse_header_lines = parse
