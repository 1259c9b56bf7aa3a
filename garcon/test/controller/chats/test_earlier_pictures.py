"""Pictures of earlier input, for a model that takes none (chats.md 4.17, 5.1.4, 5.2.3)."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from garcon.test.controller.chats.cast import CHAT, ChatsTestCase
from garcon.testing.fake_runtime import agent_entry

PICTURE = {"data": "data:image/png;base64,iVBORw0KGgo=", "name": "a.png"}
NOTES = {"data": "data:text/plain;base64,aGk=", "name": "a.txt"}


class EarlierPictureTests(ChatsTestCase):
    """A chat that began with a model that sees."""

    def open_process(self, instance: str = "instance-1") -> None:
        """Let its agent need the whole conversation each time."""
        super().open_process(instance)
        self.sees(True)

    def sees(self, pictures: bool) -> None:
        """Say whether the agent takes pictures from now on."""
        entry = structs.replace(
            agent_entry(supports_images=pictures),
            needs_history=True,
            file_attachment_mime_types=["text/plain"],
        )
        self.local.agents = [entry]
        self.clock.advance(61)

    def given(self, view: str) -> tuple[list[str], list[str]]:
        """Run a turn, and return the names of what it was given: before, and with its prompt."""
        self.assertEqual(self.run_chat(view).status, 202)
        launch: Any = self.local.last.launch
        names = [image.name for one in launch.history for image in one.images]
        return names, [image.name for image in launch.images]

    def test_a_model_without_eyes_is_given_the_texts_and_files_only(self) -> None:
        """Its server would refuse the conversation each time."""
        view = self.started(images=[PICTURE, NOTES])
        self.assertEqual(self.given(view)[0], ["a.png", "a.txt"])
        self.local.last.finish()
        self.sees(False)
        self.assertEqual(self.given(view)[0], ["a.txt"])

    def test_unanswered_input_is_sent_again_without_its_pictures(self) -> None:
        """They come with the prompt, if the model sees them."""
        view = self.started()
        self.run_chat(view, images=[PICTURE, NOTES])
        self.successResultOf(self.stop())
        self.sees(False)
        self.assertEqual(self.given(view)[1], ["a.txt"])
        self.assertEqual(self.phase(CHAT), "running")
