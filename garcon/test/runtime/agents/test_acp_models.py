"""Which models an agent of the Agent Client Protocol is shown with."""

from __future__ import annotations

from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import TestCase

from garcon.contract.catalogs import Model
from garcon.runtime.agents.acp_models import MODELS, AcpModels, listed_in

FIRST = Model(value="default", label="Default")


class Listed(TestCase):
    def setUp(self) -> None:
        self.bin = Path(self.mktemp()).absolute()
        self.bin.mkdir(parents=True)
        self.calls = self.bin / "calls"
        self.environment = {"PATH": f"{self.bin}:/usr/bin:/bin"}

    def program(self, says: str) -> None:
        """Put a program there that lists models."""
        path = self.bin / "lister"
        path.write_text(f"#!/bin/sh\necho called >> {self.calls}\n{says}\n")
        path.chmod(0o755)

    def models(self, command: tuple[str, ...] | None = ("lister",)) -> AcpModels:
        return AcpModels(reactor, (FIRST,), True, command, self.environment["PATH"])

    def values(self, models: tuple[Model, ...]) -> list[str]:
        return [model.value for model in models]

    async def test_command(self) -> None:
        """It is asked once, by whomever; its own choice stays the first."""
        self.program("echo a/one; echo; echo 'no model'; echo b/two")
        models = self.models()
        both = [Deferred.fromCoroutine(models.models(self.environment)) for _ in range(2)]
        for found in await gatherResults(both):
            self.assertEqual(self.values(found), ["default", "a/one", "b/two"])
        await models.models(self.environment)
        self.assertEqual(self.calls.read_text().split(), ["called"])

    async def test_another_version_is_asked_again(self) -> None:
        """The program has changed, and so may have its list."""
        self.program("echo a/one")
        models = self.models()
        await models.models(self.environment)
        (self.bin / "lister").unlink()
        self.program("echo a/other")
        self.assertEqual(self.values(await models.models(self.environment)), ["default", "a/other"])

    async def test_no_list(self) -> None:
        """Leaves what is known."""
        self.program("exit 3")
        self.assertEqual(await self.models().models(self.environment), (FIRST,))
        self.assertEqual(await self.models(("absent",)).models(self.environment), (FIRST,))
        self.assertEqual(await self.models(None).models(self.environment), (FIRST,))

    async def test_learned_from_a_session(self) -> None:
        """Not twice, and not without end."""
        models = self.models(None)
        models.learned([Model(value="x", label="X"), Model(value="default", label="Its default")])
        found = await models.models(self.environment)
        self.assertEqual(self.values(found), ["default", "x"])
        self.assertEqual(found[1].supports_images, True)
        models.learned([])
        self.assertEqual(await models.models(self.environment), found)
        for count in (MODELS, MODELS + 1):
            models.learned([Model(value=f"m{n}", label="") for n in range(count)])
            self.assertEqual(len(await models.models(self.environment)), 1 + MODELS)

    async def test_the_command_is_not_asked_after_a_session(self) -> None:
        """Which has told the same: a program that takes its time would hold up each start."""
        self.program("echo a/one")
        models = self.models()
        models.learned([Model(value="x", label="X")])
        self.assertEqual(self.values(await models.models(self.environment)), ["default", "x"])
        self.assertFalse(self.calls.exists())

    async def test_a_session_that_tells_while_the_command_fails(self) -> None:
        """Has told; the failure is no reason to ask again."""
        gate = self.bin / "gate"
        self.program(f"while [ ! -e {gate} ]; do sleep 0.01; done; exit 3")
        models = self.models()
        asking = Deferred.fromCoroutine(models.models(self.environment))
        models.learned([Model(value="x", label="X")])
        gate.touch()
        self.assertEqual(self.values(await asking), ["default", "x"])
        await models.models(self.environment)
        self.assertEqual(self.calls.read_text().split(), ["called"])

    def test_what_is_a_model(self) -> None:
        """One a line, with its provider; each once."""
        longest = "x/" + "y" * 198
        said = f"a/b\n\n a/b \nwarning: c/d\nplain\n\x1b[0m\n{longest}y\n{longest}".encode()
        self.assertEqual([model.value for model in listed_in(said)], ["a/b", longest])
