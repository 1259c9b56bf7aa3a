"""What a steered text's file mentions become (chats.md 5.11.7)."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.mentions import ALL_BYTES, FILE_BYTES, FILES, expanded


class MentionTests(SynchronousTestCase):
    """A base with one project in it."""

    def setUp(self) -> None:
        self.base = os.path.realpath(self.mktemp())
        self.project = os.path.join(self.base, "p")
        os.makedirs(os.path.join(self.project, "src"))
        self.write("src/a.py", "a = 1\n")

    def write(self, name: str, content: str | bytes) -> str:
        path = os.path.join(self.project, name)
        data = content if isinstance(content, bytes) else content.encode()
        with open(path, "wb") as file:
            file.write(data)
        return path

    def expanded(self, text: str) -> str:
        return expanded(text, self.project, self.base)

    def behind(self, text: str) -> str:
        """Return what was put behind a text."""
        whole = self.expanded(text)
        self.assertTrue(whole.startswith(text))
        return whole[len(text) :]

    def test_a_file_of_the_project(self) -> None:
        """Its contents come behind the text, which stays as it is."""
        self.assertEqual(
            self.expanded("look at @src/a.py please"),
            "look at @src/a.py please\n\nContents of src/a.py:\n\n```\na = 1\n```",
        )

    def test_a_quoted_path(self) -> None:
        """It may hold spaces."""
        self.write("two words.txt", "x")
        self.assertIn("Contents of two words.txt:\n\n```\nx\n```", self.behind('@"two words.txt"'))

    def test_what_ends_a_sentence(self) -> None:
        """It belongs to the path only if there is such a file."""
        for text in ("see @src/a.py.", "(@src/a.py)", "is it @src/a.py?", "'@src/a.py'"):
            self.assertIn("Contents of src/a.py:", self.behind(text))
        self.write("odd.", "dot")
        self.assertIn("Contents of odd.:", self.behind("@odd."))

    def test_what_is_no_mention(self) -> None:
        """An address, a lone sign, a file that is not there, a directory."""
        for text in ("me@src/a.py", "@", "@ src/a.py", "@nothing", "@src", "@...", '@""'):
            self.assertEqual(self.behind(text), "")

    def test_each_file_once(self) -> None:
        """However often and by whatever name it is mentioned."""
        text = "@src/a.py @./src/a.py @src/../src/a.py"
        self.assertEqual(self.behind(text).count("Contents of"), 1)

    def test_outside_the_base(self) -> None:
        """Not by name, not by a link; inside the base, elsewhere than in the project, it is."""
        outside = os.path.realpath(self.mktemp())
        with open(outside, "w") as file:
            file.write("secret")
        os.symlink(outside, os.path.join(self.project, "link"))
        for text in (f"@{outside}", "@link", "@../../" + os.path.basename(outside)):
            self.assertEqual(self.behind(text), "")
        with open(os.path.join(self.base, "shared.txt"), "w") as file:
            file.write("shared")
        self.assertIn("shared", self.behind("@../shared.txt"))

    def test_what_is_not_text(self) -> None:
        """Binary files, and pipes, which nobody waits for."""
        self.write("image", b"\x89PNG\xff")
        self.write("zero", b"a\0b")
        self.write("big", b"\xff" * (FILE_BYTES + 1))
        os.mkfifo(os.path.join(self.project, "pipe"))
        for text in ("@image", "@zero", "@big", "@pipe"):
            self.assertEqual(self.behind(text), "")

    def test_a_file_at_the_bound_and_one_byte_longer(self) -> None:
        """What is longer is cut, between characters, and says so."""
        self.write("full", "x" * FILE_BYTES)
        self.assertIn("Contents of full:\n", self.behind("@full"))
        self.write("over", "x" * FILE_BYTES + "y")
        over = self.behind("@over")
        self.assertIn(f"(its first {FILE_BYTES} of {FILE_BYTES + 1} bytes)", over)
        self.assertNotIn("y", over.rpartition("Contents of over")[2].partition("bytes)")[2])
        self.write("wide", "x" + "é" * (FILE_BYTES // 2))
        self.assertIn(
            f"(its first {FILE_BYTES - 1} of {FILE_BYTES + 1} bytes)", self.behind("@wide")
        )

    def test_sixteen_files_and_one_more(self) -> None:
        """The rest is left out."""
        for n in range(FILES + 1):
            self.write(f"f{n}", f"{n}")
        names = [f"@f{n}" for n in range(FILES)]
        self.assertEqual(self.behind(" ".join(names)).count("Contents of"), FILES)
        self.assertEqual(self.behind(" ".join([*names, f"@f{FILES}"])).count("Contents of"), FILES)

    def test_all_together(self) -> None:
        """The last one that fits in part is cut, and nothing comes after it."""
        whole = ALL_BYTES // FILE_BYTES
        for n in range(whole):
            self.write(f"f{n}", "x" * (FILE_BYTES - 1))
        self.write("last", "y" * 100)
        self.write("none", "z")
        text = " ".join(f"@f{n}" for n in range(whole)) + " @last @none"
        behind = self.behind(text)
        self.assertIn(f"Contents of last (its first {whole} of 100 bytes)", behind)
        self.assertNotIn("Contents of none", behind)

    def test_a_fence_that_the_file_does_not_end(self) -> None:
        """Longer than any run of ticks in it."""
        self.write("code.md", "````\nx\n````\n")
        self.assertIn("\n\n`````\n````\nx\n````\n`````", self.behind("@code.md"))
