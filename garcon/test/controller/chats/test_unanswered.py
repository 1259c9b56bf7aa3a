"""Unanswered input, rule by rule (chats.md 5.2.1 to 5.2.4); `test_resend.py` has the counting by
itself.
"""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ChatMessages
from garcon.test.controller.chats.cast import CHAT, OTHER
from garcon.test.controller.chats.test_steering import SteerCase
from garcon.testing.fake_runtime import agent_entry

PNG = {"data": "data:image/png;base64,AAAA", "name": "a.png", "mimeType": "image/png"}


class UnansweredTests(SteerCase):
    """A turn runs, whose input is ``long``."""

    def stopped(self) -> None:
        self.successResultOf(self.stop())

    def candidates(self, chat_id: str = CHAT) -> list[str]:
        """Return what readers are told is unanswered."""
        found = self.messages(chat_id).body["resendCandidates"]
        return [one["content"] for one in found]

    def handoff(self, command: str, agent_id: str = "other") -> None:
        """Run a turn with another agent."""
        self.local.agents.append(agent_entry("other"))
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        target = {"agentId": agent_id, "model": agent_id}
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        answer = self.run_chat(self.view, command=command, handoff=handoff)
        self.assertEqual(answer.status, 202, answer.body)

    def test_1_counts_back_to_the_last_answer(self) -> None:
        """Output, a permission request, an end that was finished or failed; nothing before it."""
        for answer in ("say", "ask", "finish", "fail"):
            self.stopped()
            self.run_chat(self.view, command=answer)
            run = self.local.last
            if answer == "say":
                run.say("hm")
            elif answer == "ask":
                run.ask("11111111-2222-4333-8444-555555555555")
            elif answer == "finish":
                run.finish()
            else:
                run.fail("bad")
            self.stopped()
            self.assertEqual(self.candidates(), [], answer)
            self.run_chat(self.view, command=f"after {answer}")
            self.assertEqual(self.prompts()[-1], f"after {answer}")

    def test_1_a_change_of_hands_is_no_answer(self) -> None:
        """The next owner is given what the last one was not able to answer, and not told it twice;
        so is the owner after that.
        """
        self.stopped()
        self.handoff("b")
        self.assertEqual(self.prompts()[-1], "long\n\nb")
        history = [one.content for one in self.local.last.launch.history]
        self.assertEqual(history, ["hello", "hi"])
        self.stopped()
        self.assertEqual(self.candidates(), ["long", "b"])
        kinds = [kind for _, kind, _ in self.kinds()[2:]]
        self.assertEqual(kinds, ["user-message", "agent-switch", "user-message"])
        self.handoff("c", "scripted")
        self.assertEqual(self.prompts()[-1], "long\n\nb\n\nc")
        self.restart()
        self.assertEqual(self.candidates(), ["long", "b", "c"])

    def test_2_only_while_nothing_runs(self) -> None:
        """None during a turn, for whoever reads and for whoever is told; none after its end."""
        self.stopped()
        self.assertEqual(self.candidates(), ["long"])
        self.told.clear()
        self.run_chat(self.view, command="next")
        self.assertEqual(self.candidates(), [])
        told = [event.resend_candidates for event in self.told if isinstance(event, ChatMessages)]
        self.assertEqual((len(told), any(told)), (1, False))
        for end in ("finish", "fail"):
            run = self.local.last
            run.finish() if end == "finish" else run.fail("bad")
            self.assertEqual(self.candidates(), [])
            self.run_chat(self.view, command="again")

    def test_3_goes_before_the_next_input(self) -> None:
        """All of it but what is excluded, oldest first, with its attachments; rows stay apart."""
        self.stopped()
        self.run_chat(self.view, command="two", images=[PNG])
        self.stopped()
        self.run_chat(self.view, command="three")
        self.stopped()
        page = self.messages().body
        ordinals = {one["content"]: one["ordinal"] for one in page["resendCandidates"]}
        names = [one["attachmentNames"] for one in page["resendCandidates"]]
        self.assertEqual((list(ordinals), names), (["long", "two", "three"], [[], ["a.png"], []]))
        self.run_chat(self.view, command="four", excludedResendOrdinals=[ordinals["long"]])
        launch = self.local.last.launch
        self.assertEqual(launch.prompt, "two\n\nthree\n\nfour")
        self.assertEqual([image.name for image in launch.images], ["a.png"])
        self.assertEqual(self.texts(), ["long", "two", "three", "four"])

    def test_4_an_exclusion_is_for_one_request(self) -> None:
        """The next one carries it, also after a restart."""
        self.stopped()
        ordinal = self.messages().body["resendCandidates"][0]["ordinal"]
        self.run_chat(self.view, command="b", excludedResendOrdinals=[ordinal])
        self.assertEqual(self.prompts()[-1], "b")
        self.restart()
        self.assertEqual(self.candidates(), ["long", "b"])
        self.run_chat(self.view, command="c")
        self.assertEqual(self.local.last.launch.prompt, "long\n\nb\n\nc")

    def test_4_a_queued_input_carries_it(self) -> None:
        """Whatever is unanswered when it is sent."""
        self.queued("queued")
        self.stopped()
        self.resume(self.control()["queue"]["pause"]["id"])
        self.assertEqual(self.prompts()[-1], "long\n\nqueued")

    def test_4_a_successor_carries_it(self) -> None:
        """What interrupts a turn does not lose its input."""
        self.queued("instead")
        body: dict[str, Any] = {"clientRequestId": self.request_id(), "chatId": CHAT}
        self.assertEqual(self.asked(operations.INTERRUPT_AND_SEND, body).status, 200)
        self.assertEqual(self.prompts()[-1], "long\n\ninstead")

    def test_4_a_fork_carries_it(self) -> None:
        """A child of a running parent is given both, also after a restart."""
        body = {"sourceChatId": CHAT, "chatId": OTHER, "clientRequestId": self.request_id()}
        self.assertEqual(self.asked(operations.FORK, body).status, 200)
        self.assertEqual(self.candidates(OTHER), ["long"])
        self.restart()
        view = self.messages(OTHER).body["transcriptViewId"]
        self.run_chat(view, chatId=OTHER, command="child")
        self.assertEqual(self.local.last.launch.prompt, "long\n\nchild")

    def test_4_a_continuation_carries_it(self) -> None:
        """A chat that goes on in another one begins with what was not answered."""
        self.stopped()
        body = self.run_body(self.view, sourceChatId=CHAT, chatId=OTHER, command="on")
        del body["transcriptViewId"]
        answer = self.asked(operations.HANDOFF_RUN, body)
        self.assertEqual(answer.status, 202, answer.body)
        self.assertEqual(self.local.last.launch.prompt, "long\n\non")

    def test_4_a_steer_is_never_composed(self) -> None:
        """It is given as it is, whatever waits; what it leaves unanswered is carried later."""
        self.stopped()
        self.run_chat(self.view, command="b")
        self.steered("steer")
        self.assertEqual(self.delivered(), ["steer"])
        self.stopped()
        self.assertEqual(self.candidates(), ["long", "b", "steer"])
        self.run_chat(self.view, command="c")
        self.assertEqual(self.prompts()[-1], "long\n\nb\n\nsteer\n\nc")
