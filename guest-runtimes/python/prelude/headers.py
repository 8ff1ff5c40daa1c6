"""Parses the headers of an HTTP answer, without the mail parser for ordinary headers.

The mail parser takes a tenth of a small request's time. Its result for ordinary header lines is known; all others are
left to it.
"""
import http.client
import re

# Matches if each line is a name, a colon and a value: no continuation line, no lone carriage return, no syntax of mail.
_plain = re.compile(r"(?:[!-9;-~]+:[^\r\n]*\r\n)+").fullmatch
_pairs = re.compile(r"([!-9;-~]+):[ \t]*([^\r\n]*)\r\n").findall
# For such a content type, the mail parser also parses the text after the headers.
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
