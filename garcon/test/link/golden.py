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
from garcon.contract.rpc import (
    CallState,
    Lane,
    LostCall,
    ReconcileCalls,
    ReconciledCalls,
    produced,
)
from garcon.contract.runs import SessionStarted
from garcon.contract.terminals import (
    TerminalChunk,
    TerminalDetach,
    TerminalNotification,
    TerminalOutput,
)
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
        "frames": _frames(),
    }


def _frames() -> dict[str, str]:
    """Return one of every frame, and the payloads that the link itself reads."""
    error = frames.ErrorObject(
        code="EXECUTOR_BUSY",
        message="busy",
        retryable=True,
        domain="executor",
        status=503,
        outcome="not-dispatched",
    )
    binding = "c1de4c62-9c2d-4d0c-8f0a-000000000030"
    fact = produced(binding, SessionStarted(agent_session_id="agent"))
    attachment = "c1de4c62-9c2d-4d0c-8f0a-000000000040"
    chunk = TerminalChunk(sequence=7, data="$ ls\r\n")
    output = TerminalNotification(attachment_id=attachment, event=TerminalOutput(chunks=[chunk]))
    lost = ReconcileCalls([LostCall(CALL, SESSION, 7)])
    states = ReconciledCalls([CallState(CALL, "not-received")])
    encode = frames.encode
    texts = {
        "request": frames.numbered(
            frames.request_head(CALL, "test.echo", "", b'{"text":"hello"}'), 1
        ),
        "request of an integration": frames.numbered(
            frames.request_head(CALL, "test.echo", "integration", b"null"), 2
        ),
        "request calls.reconcile": frames.numbered(
            frames.request_head(CALL, "calls.reconcile", "", encode(lost)), 3
        ),
        "result": frames.result(CALL, b'{"text":"hello"}'),
        "result of calls.reconcile": frames.result(CALL, encode(states)),
        "error": encode(frames.Error(id=CALL, error=error)),
        "cancel": encode(frames.Cancel(id=CALL)),
        "reply-ack": encode(frames.ReplyAck([CALL])),
        "producer": frames.producer(1, encode(fact)),
        "producer-ack": encode(
            frames.ProducerAck(acknowledgements=[frames.Acknowledgement(binding, 1)])
        ),
        "terminal": frames.terminal(encode(output)),
        "terminal-detach": encode(
            frames.TerminalDetach(request=TerminalDetach(attachment_id=attachment))
        ),
        "terminal-taken": encode(frames.TerminalTaken(taken=[frames.Taken(attachment, 7)])),
        "bulk-prepare": encode(frames.BulkPrepare(BULK)),
        "bulk-prepared": encode(frames.BulkPrepared(BULK)),
        "bulk-connect": encode(frames.BulkConnect(BULK)),
        "bulk-activate": encode(frames.BulkActivate(BULK)),
        "bulk-active": encode(frames.BulkActive(BULK)),
        "bulk-lost": encode(frames.BulkLost(BULK)),
        "ping": frames.PING,
        "pong": frames.PONG,
        "close": encode(frames.Close(kind="local-close", text="bye")),
    }
    return {name: text.decode() for name, text in texts.items()}


def _dialogue(one: Cipher, other: Cipher) -> list[dict[str, str]]:
    """Return what follows a handshake: small texts, and a large one with a small one between its
    fragments.
    """
    ping, pong = WHOLE + frames.PING, WHOLE + frames.PONG
    large = bytes(n % 251 for n in range(FRAGMENT + 1))
    said = [
        ("dialler", one, ping),
        ("listener", other, pong),
        ("listener", other, cut(large, 0)),
        ("listener", other, ping),
        ("listener", other, cut(large, FRAGMENT)),
        ("dialler", one, pong),
    ]
    dialogue = []
    for sender, cipher, plaintext in said:
        record = cipher.seal(plaintext)
        entry = {"from": sender, "plaintextSha256": sha256(plaintext).hexdigest()}
        if len(plaintext) < 100:
            entry |= {"plaintext": plaintext.hex(), "record": record.hex()}
        else:
            entry |= {"recordSha256": sha256(record).hexdigest()}
        dialogue.append(entry)
    return dialogue


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
    records = [
        one.seal(WHOLE + hello),
        other.seal(WHOLE + own),
        other.seal(WHOLE + proof),
        one.seal(WHOLE + last),
    ]
    return {
        "what": what,
        "secret": SECRET,
        "diallerEphemeral": DIALLER_KEY.hex(),
        "listenerEphemeral": LISTENER_KEY.hex(),
        "messages": [first.hex(), second.hex()],
        "handshakeHash": one.handshake_hash.hex(),
        "texts": [t.decode() for t in (hello, own, proof, last)],
        "records": [record.hex() for record in records],
        "dialogue": _dialogue(one, other),
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
