"""The browser client's page as it is sent: with the workspace's title in it, and a policy that lets
exactly its own scripts run (server.md F.9).

Everything here is text in, text out.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256

from attrs import frozen

DEFAULT_TITLE = "Garcon"

NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of everything that is no page: it loads nothing, and nothing frames it."""

_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script\s*>", re.IGNORECASE | re.DOTALL)
_SOURCE = re.compile(r"\bsrc\s*=", re.IGNORECASE)
_TITLE = re.compile(r"(<title\b[^>]*>)(.*?)(</title\s*>)", re.IGNORECASE | re.DOTALL)
_META = re.compile(r"<meta\b[^>]*>", re.IGNORECASE)
_APP_NAME = re.compile(
    r"\bname\s*=\s*[\"']?apple-mobile-web-app-title[\"']?(?=[\s/>])", re.IGNORECASE
)
_CONTENT = re.compile(r"\bcontent\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)", re.IGNORECASE)
_HEAD_END = re.compile(r"</head\s*>", re.IGNORECASE)


@frozen
class AppTitle:
    """What the operator calls this Garcon, and the version of the settings that say so."""

    title: str = DEFAULT_TITLE
    version: int = 0


def page_policy(inline: Iterable[str] = ()) -> str:
    """Return the policy of a page of ours; `inline` are the texts of the scripts in it.

    Scripts are the page's own files and these texts. Images of other servers are not loaded: an
    agent's Markdown could tell them things.
    """
    hashes = "".join(f" {source}" for source in dict.fromkeys(map(_hash_source, inline)))
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'wasm-unsafe-eval'{hashes}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "media-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "frame-src 'self' blob:",
            "manifest-src 'self'",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )


def _hash_source(text: str) -> str:
    # A browser hashes what it has parsed, and parsing makes every line end a line feed.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    digest = sha256(text.encode("utf-8", "surrogateescape")).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


def titled(page: bytes, app: AppTitle) -> tuple[bytes, str]:
    """Return a page with the title in it, and its policy."""
    text = page.decode("utf-8", "surrogateescape")
    shown = html.escape(app.title)
    text = _TITLE.sub(lambda found: found[1] + shown + found[3], text, count=1)
    text = _META.sub(lambda found: _named(found[0], shown), text)
    script = f"<script>globalThis.__GARCON_APP_TITLE__={_script_json(app)};</script>"
    head_end = _HEAD_END.search(text)
    at = 0 if head_end is None else head_end.start()
    text = text[:at] + script + text[at:]
    inline = [body for attributes, body in _SCRIPT.findall(text) if not _SOURCE.search(attributes)]
    return text.encode("utf-8", "surrogateescape"), page_policy(inline)


def _named(tag: str, shown: str) -> str:
    """Return a ``meta`` tag, with the title if it is the one for it."""
    if _APP_NAME.search(tag) is None:
        return tag
    content = f'content="{shown}"'
    if _CONTENT.search(tag):
        return _CONTENT.sub(lambda found: content, tag, count=1)
    return f"{tag[: len('<meta')]} {content}{tag[len('<meta') :]}"


def _script_json(app: AppTitle) -> str:
    """Return JSON that no HTML or script parser takes for the end of anything."""
    value = {"title": app.title, "version": app.version}
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def manifest(content: bytes, app: AppTitle) -> bytes:
    """Return a web manifest with the title in it; one that is no object keeps only that."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = {}
    named = value if isinstance(value, dict) else {}
    named = {**named, "name": app.title, "short_name": app.title}
    return json.dumps(named, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
