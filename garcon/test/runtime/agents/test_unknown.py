"""What an agent says that we do not know: kept once, counted always."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import UNKNOWN_RAW
from garcon.contract.runs import UnknownEvent
from garcon.runtime.agents.conversation import Unknown
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.unknown import KINDS, OTHERS, UnknownKinds, new_fields


class UnknownKindsTests(SynchronousTestCase):
    """One process."""

    def setUp(self) -> None:
        self.kinds = UnknownKinds()

    def take(self, kind: str, message: object) -> None:
        """Hear something."""
        self.kinds.take("claude", "1.2", Unknown(kind, message))

    def test_the_first_of_a_kind_is_kept_as_it_came(self) -> None:
        """With the version that said so, and told once."""
        self.take("sparkle", {"type": "sparkle", "a": [1]})
        event = UnknownEvent(
            agent_id="claude",
            kind="sparkle",
            raw='{"type":"sparkle","a":[1]}',
            agent_version="1.2",
        )
        self.assertEqual(self.kinds.first(), [event])
        self.assertEqual(self.kinds.first(), [])

    def test_later_ones_are_counted(self) -> None:
        """And told together, from then on anew."""
        for _ in range(4):
            self.take("sparkle", {})
        self.kinds.first()
        (event,) = self.kinds.rest("claude", None)
        self.assertEqual((event.kind, event.count, event.raw), ("sparkle", 3, ""))
        self.assertEqual(self.kinds.rest("claude", None), [])

    def test_kinds_are_bounded(self) -> None:
        """As many as are told apart, and one for all others; none is lost from the count."""
        for number in range(KINDS + 3):
            self.take(f"kind-{number}", {})
        told = [event.kind for event in self.kinds.first()]
        self.assertEqual(told, [*(f"kind-{number}" for number in range(KINDS)), OTHERS])
        self.assertEqual([event.count for event in self.kinds.rest("claude", None)], [2])

    def test_what_is_kept_is_bounded(self) -> None:
        """A message that is longer loses its end, also within a character."""
        for size, kept in ((UNKNOWN_RAW - 2, UNKNOWN_RAW), (UNKNOWN_RAW - 1, UNKNOWN_RAW)):
            self.take(f"of-{size}", "x" * size)
            (event,) = self.kinds.first()
            self.assertEqual(len(event.raw), kept)
        self.take("wide", "é" * UNKNOWN_RAW)
        (event,) = self.kinds.first()
        self.assertEqual(len(event.raw.encode()), UNKNOWN_RAW - 1)

    def test_no_part_of_a_secret_is_kept(self) -> None:
        """Not even where what is kept is cut within it."""
        key = "sk-0123456789"
        for more in range(1, len(key) + 2):
            raw = "x" * (UNKNOWN_RAW - more) + key
            unknown = Unknown(f"kind-{more}-{key}", raw)
            self.kinds.take("claude", "1.2", unknown, Secrets([key]))
            (event,) = self.kinds.first()
            self.assertEqual(event.kind, f"kind-{more}-[secret]")
            self.assertNotIn("sk-0", event.raw)
            self.assertLessEqual(len(event.raw), UNKNOWN_RAW)

    def test_what_cannot_be_written_is_counted_all_the_same(self) -> None:
        """A text that no store could keep."""
        self.take("odd", {"a": "\ud800"})
        (event,) = self.kinds.first()
        self.assertEqual(event.count, 1)

    def test_new_fields_of_a_known_message(self) -> None:
        """Each is named with its message, which is kept whole."""
        message = {"type": "result", "sparkle": 1, "session_id": "s"}
        self.assertEqual(
            new_fields("result", message, {"type", "session_id"}),
            [Unknown("result.sparkle", message)],
        )
