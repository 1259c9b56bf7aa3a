"""Hello and proof: who is let in, and why others are not."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import evolve
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import HANDSHAKE_FRAME
from garcon.contract.rpc import Lane
from garcon.link.handshake import (
    Agreed,
    Answering,
    Dialling,
    Hello,
    Mine,
    Proof,
    Refusal,
    Refused,
    Terms,
    check_pair,
    check_version,
    parse,
    signature,
)
from garcon.link.interfaces import Peer
from garcon.test.link.cast import EXECUTOR, OTHER_EXECUTOR, OTHER_SECRET, SECRET
from garcon.test.properties import given

SESSION = "c1de4c62-9c2d-4d0c-8f0a-000000000010"
OTHER = "c1de4c62-9c2d-4d0c-8f0a-000000000099"
BULK = "c1de4c62-9c2d-4d0c-8f0a-000000000011"
HASH = bytes(range(32))
CONTROLLER = Mine("controller", EXECUTOR, "c-runtime", SECRET)
WORKER = Mine("worker", None, "w-runtime", SECRET)
ASKED, GIVEN = Terms(Lane.PRIMARY), Terms(Lane.PRIMARY, SESSION)


def hello(**changes: Any) -> Hello:
    """Return a controller's sound primary hello, changed."""
    sound = Hello(
        "1+protocol.1", "controller", EXECUTOR, "r", "0" * 64, Lane.PRIMARY, SESSION, None
    )
    return msgspec.structs.replace(sound, **changes)


class Case(SynchronousTestCase):
    def refusal(self, f: Any, *arguments: Any) -> Refusal:
        """Return the kind that a call is refused with."""
        error: Refused = self.assertRaises(Refused, f, *arguments)
        return error.kind


class Exchanges(Case):
    """Whole handshakes."""

    def shake(
        self,
        dialler: Mine = WORKER,
        terms: Terms = ASKED,
        listener: Mine = CONTROLLER,
        answer: Terms = GIVEN,
        hashes: tuple[bytes, bytes] = (HASH, HASH),
    ) -> tuple[Agreed, Agreed]:
        one = Dialling(dialler, terms, lambda _: answer, hashes[0], bytes(32))
        other = Answering(listener, lambda _: answer, hashes[1], bytes([1]) * 32)
        (own, proof), nothing = other.take(one.begin())
        self.assertIsNone(nothing)
        self.assertEqual(one.take(own), ([], None))
        (last,), mine = one.take(proof)
        rest, theirs = other.take(last)
        self.assertEqual(rest, [])
        assert mine is not None and theirs is not None
        return mine, theirs

    def test_a_worker_learns_its_executor(self) -> None:
        """Without an id of its own a worker takes the controller's, and the session it minted."""
        mine, theirs = self.shake()
        self.assertEqual(mine.peer, Peer(EXECUTOR, "c-runtime", "controller"))
        self.assertEqual(theirs.peer, Peer(EXECUTOR, "w-runtime", "worker"))
        self.assertEqual((mine.session_id, mine.generation), (SESSION, SESSION))
        self.assertEqual((theirs.session_id, theirs.generation), (SESSION, SESSION))

    def test_the_controller_dials(self) -> None:
        """The other way round it is the same."""
        mine, theirs = self.shake(CONTROLLER, Terms(Lane.PRIMARY, SESSION), WORKER)
        self.assertEqual((mine.session_id, theirs.session_id), (SESSION, SESSION))

    def test_bulk_belongs_to_its_primary(self) -> None:
        """A bulk lane's generation is its primary's session."""
        terms = Terms(Lane.BULK, BULK, SESSION)
        worker = evolve(WORKER, executor_id=EXECUTOR)
        mine, theirs = self.shake(worker, terms, CONTROLLER, terms)
        for agreed in (mine, theirs):
            self.assertEqual((agreed.session_id, agreed.generation), (BULK, SESSION))

    def test_identities_must_fit(self) -> None:
        """Each misfit has its own kind, on whichever side it is found."""
        worker = evolve(WORKER, executor_id=OTHER_EXECUTOR)
        self.assertEqual(self.refusal(self.shake, worker), Refusal.WRONG_EXECUTOR)
        self.assertEqual(
            self.refusal(self.shake, evolve(WORKER, role="controller")), Refusal.MALFORMED
        )
        same = evolve(CONTROLLER, runtime_id="x")
        self.assertEqual(
            self.refusal(self.shake, same, Terms(Lane.PRIMARY, SESSION)), Refusal.WRONG_ROLE
        )
        self.assertEqual(
            self.refusal(self.shake, evolve(WORKER, version="2")), Refusal.VERSION_MISMATCH
        )

    def test_each_proof_is_for_one_channel_and_secret(self) -> None:
        """Another handshake hash or secret makes a wrong proof."""
        self.assertEqual(
            self.refusal(lambda: self.shake(hashes=(HASH, bytes(32)))), Refusal.BAD_PROOF
        )
        self.assertEqual(
            self.refusal(self.shake, evolve(WORKER, secret=OTHER_SECRET)), Refusal.BAD_PROOF
        )

    def test_a_proof_cannot_be_reflected(self) -> None:
        """A side's own proof sent back to it is wrong: the signer's role is part of it."""
        other = Answering(CONTROLLER, lambda _: Terms(Lane.PRIMARY, SESSION), HASH, bytes(32))
        one = Dialling(WORKER, Terms(Lane.PRIMARY), lambda _: Terms(Lane.PRIMARY), HASH, bytes(32))
        (_, proof), _ = other.take(one.begin())
        self.assertEqual(self.refusal(other.take, proof), Refusal.BAD_PROOF)

    def test_the_judge_is_asked_before_anything_is_proven(self) -> None:
        """A refusing judge ends the handshake with neither hello nor proof."""

        def refuse(_: Hello) -> Terms:
            raise Refused(Refusal.SECOND_PRIMARY, "no")

        other = Answering(CONTROLLER, refuse, HASH, bytes(32))
        one = Dialling(WORKER, Terms(Lane.PRIMARY), refuse, HASH, bytes(32))
        self.assertEqual(self.refusal(other.take, one.begin()), Refusal.SECOND_PRIMARY)

    def test_texts_out_of_turn(self) -> None:
        """A proof without a hello, and a second hello, are malformed."""
        proof = msgspec.json.encode(Proof("0" * 64))
        answer = Terms(Lane.PRIMARY, SESSION)
        other = Answering(CONTROLLER, lambda _: answer, HASH, bytes(32))
        self.assertEqual(self.refusal(other.take, proof), Refusal.MALFORMED)
        other = Answering(CONTROLLER, lambda _: answer, HASH, bytes(32))
        one = Dialling(WORKER, Terms(Lane.PRIMARY), lambda _: answer, HASH, bytes(32))
        text = one.begin()
        other.take(text)
        self.assertEqual(self.refusal(other.take, text), Refusal.BAD_PROOF)


class Forms(Case):
    """What a hello looks like, to the byte."""

    def test_nine_fields_in_order(self) -> None:
        """A sound hello has these fields in this order."""
        self.assertEqual(
            list(msgspec.json.decode(msgspec.json.encode(hello()))),
            [
                "type",
                "version",
                "role",
                "executorId",
                "runtimeId",
                "nonce",
                "lane",
                "sessionId",
                "primarySessionId",
            ],
        )
        self.assertEqual(parse(msgspec.json.encode(hello())), hello())

    def test_another_form_is_refused(self) -> None:
        """Missing, further, repeated and reordered fields, spaces, and other JSON."""
        fields = msgspec.json.decode(msgspec.json.encode(hello()))
        sound = msgspec.json.encode(hello())
        wrong = [
            msgspec.json.encode({k: v for k, v in fields.items() if k != "nonce"}),
            msgspec.json.encode(fields | {"extra": 1}),
            msgspec.json.encode(dict(reversed(fields.items()))),
            sound + b" ",
            sound.replace(b":", b": ", 1),
            sound[:-1] + b',"lane":"primary"}',
            b"[]",
            b"{",
            b"\xff",
            b'{"type":"proof","signature":"' + b"0" * 63 + b'"}',
            b'{"type":"proof","signature":"' + b"G" * 64 + b'"}',
        ]
        for text in wrong:
            self.assertEqual(self.refusal(parse, text), Refusal.MALFORMED, text)

    def test_fields_have_their_bounds(self) -> None:
        """Names of 1 to 128 characters, a hexadecimal nonce, UUIDs, and null only where it may
        be.
        """
        for name in ("version", "executor_id", "runtime_id"):
            parse(msgspec.json.encode(hello(**{name: "x" * 128})))
        wrong: list[dict[str, Any]] = [
            *({n: "x" * 129} for n in ("version", "executor_id", "runtime_id")),
            *({n: ""} for n in ("version", "executor_id", "runtime_id")),
            {"nonce": "0" * 63},
            {"nonce": "A" * 64},
            {"session_id": "x"},
            {"session_id": None},
            {"executor_id": None},
            {"session_id": SESSION.upper()},
            {"primary_session_id": SESSION},
            {"lane": Lane.BULK},
            {"role": "worker", "lane": Lane.BULK, "executor_id": None},
        ]
        for changes in wrong:
            self.assertEqual(
                self.refusal(parse, msgspec.json.encode(hello(**changes))),
                Refusal.MALFORMED,
                changes,
            )
        parse(msgspec.json.encode(hello(role="worker", executor_id=None, session_id=None)))

    def test_a_frame_of_8192_bytes(self) -> None:
        """8192 bytes are read, 8193 are not."""
        text = msgspec.json.encode({"type": "hello", "version": "v", "pad": ""})
        full = text[:-2] + b"x" * (HANDSHAKE_FRAME - len(text)) + text[-2:]
        self.assertEqual(len(full), 8192)
        self.assertEqual(self.refusal(check_version, full, "1"), Refusal.VERSION_MISMATCH)
        self.assertEqual(self.refusal(check_version, full + b" ", "1"), Refusal.MALFORMED)
        self.assertEqual(self.refusal(parse, full + b" "), Refusal.MALFORMED)

    def test_another_version_may_look_otherwise(self) -> None:
        """A hello of a later version is recognised as one, whatever else it has."""
        later = b'{"type":"hello","version":"9.0.0+protocol.9","lanes":["a"],"role":7}'
        self.assertEqual(self.refusal(check_version, later, "1"), Refusal.VERSION_MISMATCH)

    @given(st.binary(max_size=300))
    def test_rubbish_is_refused(self, text: bytes) -> None:
        """No bytes do more than being refused."""
        self.assertRaises(Refused, parse, text)


class Pairs(Case):
    """The identity checks of the two hellos."""

    def test_table(self) -> None:
        """Each difference has its kind; null from a worker is no difference."""
        worker = hello(role="worker")
        bulk = {"lane": Lane.BULK, "session_id": BULK, "primary_session_id": SESSION}
        check_pair(hello(), worker)
        check_pair(hello(), msgspec.structs.replace(worker, executor_id=None, session_id=None))
        check_pair(hello(**bulk), hello(role="worker", **bulk))
        for expected, controller, changes in (
            (Refusal.WRONG_LANE, hello(), bulk),
            (Refusal.WRONG_EXECUTOR, hello(), {"executor_id": OTHER_EXECUTOR}),
            (Refusal.WRONG_SESSION, hello(), {"session_id": OTHER}),
            (Refusal.STALE_PRIMARY, hello(**bulk), bulk | {"primary_session_id": OTHER}),
            (Refusal.WRONG_SESSION, hello(**bulk), bulk | {"session_id": OTHER}),
        ):
            changed = msgspec.structs.replace(worker, **changes)
            self.assertEqual(self.refusal(check_pair, controller, changed), expected)

    def test_a_signature_covers_everything(self) -> None:
        """A change anywhere in what is signed changes the signature."""
        base = (SECRET, "worker", b"{1}", b"{2}", HASH)
        made = {signature(*base)}  # type: ignore[arg-type]
        for n, other in enumerate((OTHER_SECRET, "controller", b"{3}", b"{4}", bytes(32))):
            changed: list[Any] = list(base)
            changed[n] = other
            made.add(signature(*changed))
        self.assertEqual(len(made), 6)
