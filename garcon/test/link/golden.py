"""Makes the golden vectors of the wire: run as a program it writes them, imported it lets a test
compare.

Another implementation that produces the same bytes speaks this revision of the protocol.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from garcon.contract.connection_url import secret_bytes
from garcon.contract.limits import FRAGMENT
from garcon.contract.rpc import Lane
from garcon.link import frames
from garcon.link.fragments import WHOLE, cut
from garcon.link.handshake import Answering, Dialling, Mine, Terms
from garcon.link.noise import Cipher
from garcon.test.link.cast import EXECUTOR, SECRET

FILE = Path(__file__).parent / "vectors" / "wire.json"
SESSION = "c1de4c62-9c2d-4d0c-8f0a-000000000010"
BULK = "c1de4c62-9c2d-4d0c-8f0a-000000000011"
CALL = "c1de4c62-9c2d-4d0c-8f0a-000000000020"
VERSION = "1.0.0+protocol.1"
DIALLER_KEY, LISTENER_KEY = bytes(range(1, 33)), bytes(range(33, 65))


def golden() -> dict[str, Any]:
    """Return every vector, as the file has it."""
    return {
        "handshakes": [
            _handshake("primary, the worker dials", "worker", Terms(Lane.PRIMARY)),
            _handshake("bulk, the controller dials", "controller", Terms(Lane.BULK, BULK, SESSION)),
        ],
        "fragments": [
            _fragments(size) for size in (1, FRAGMENT, FRAGMENT + 1, 2 * FRAGMENT, 2 * FRAGMENT + 1)
        ],
        "frames": {
            "request": frames.numbered(
                frames.request_head(CALL, "test.echo", "", b'{"text":"hello"}'), 1
            ).decode(),
            "result": frames.result(CALL, b'{"text":"hello"}').decode(),
            "ping": frames.PING.decode(),
            "pong": frames.PONG.decode(),
            "cancel": frames.encode(frames.Cancel(id=CALL)).decode(),
            "close": frames.encode(frames.Close(kind="local-close", text="bye")).decode(),
            "bulk-prepare": frames.encode(frames.BulkPrepare(BULK)).decode(),
        },
    }


def _handshake(what: str, dialling_role: Any, terms: Terms) -> dict[str, Any]:
    psk = secret_bytes(SECRET)
    one = Cipher(psk, initiator=True, ephemeral=DIALLER_KEY)
    other = Cipher(psk, initiator=False, ephemeral=LISTENER_KEY)
    first = one.write_handshake()
    other.read_handshake(first)
    second = other.write_handshake()
    one.read_handshake(second)
    knows = terms.lane is Lane.BULK or dialling_role == "controller"
    executor = {"controller": EXECUTOR, "worker": EXECUTOR if knows else None}
    answering_role: Any = "worker" if dialling_role == "controller" else "controller"
    answer = Terms(terms.lane, terms.session_id or SESSION, terms.primary_session_id)

    def mine(role: Any) -> Mine:
        return Mine(role, executor[role], f"{role}-runtime", SECRET, VERSION)

    dialling = Dialling(
        mine(dialling_role), terms, lambda _: answer, one.handshake_hash, bytes([7]) * 32
    )
    answering = Answering(
        mine(answering_role), lambda _: answer, other.handshake_hash, bytes([9]) * 32
    )
    hello = dialling.begin()
    (own, proof), _ = answering.take(hello)
    dialling.take(own)
    (last,), agreed = dialling.take(proof)
    answering.take(last)
    assert agreed is not None
    return {
        "what": what,
        "secret": SECRET,
        "diallerEphemeral": DIALLER_KEY.hex(),
        "listenerEphemeral": LISTENER_KEY.hex(),
        "messages": [first.hex(), second.hex()],
        "handshakeHash": one.handshake_hash.hex(),
        "texts": [t.decode() for t in (hello, own, proof, last)],
        "records": [
            one.seal(WHOLE + hello).hex(),
            other.seal(WHOLE + own).hex(),
            other.seal(WHOLE + proof).hex(),
            one.seal(WHOLE + last).hex(),
        ],
        "sessionId": agreed.session_id,
        "generation": agreed.generation,
    }


def _fragments(size: int) -> dict[str, Any]:
    text = bytes(n % 251 for n in range(size))
    records = [cut(text, offset) for offset in range(0, size, FRAGMENT)]
    return {
        "size": size,
        "textSha256": sha256(text).hexdigest(),
        "records": [
            {"kind": record[0], "length": len(record), "sha256": sha256(record).hexdigest()}
            for record in records
        ],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(golden(), indent=1) + "\n")
