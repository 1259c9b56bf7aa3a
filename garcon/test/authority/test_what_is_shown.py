"""Values that carry a secret do not show it, whoever prints or logs them (security.txt)."""

from __future__ import annotations

from msgspec import Raw
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from garcon.contract import executors, operations
from garcon.contract.accounts import Credentials, SignedIn, User
from garcon.contract.rpc import BridgedHttp, BridgedReply, BridgedRequest
from garcon.controller.handlers import Answer, Call, Reply
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.link.handshake import Mine
from garcon.local.descriptors import Descriptor
from garcon.local.tokens import SavedToken
from garcon.web.exchange import Incoming, Outgoing
from garcon.worker.gateway.policy import Identity

SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
URL = f"wss://w.example/executor#secret={SECRET}"
BODY = {"connectionUrl": URL}
EDIT = executors.ConnectionEdit(direction="controller-connects", no_tls=False, connection_url=URL)


class ShownTests(SynchronousTestCase):
    """What Python shows of each value, alone and within others."""

    def test_no_value_shows_its_secret(self) -> None:
        """Requests, answers, credentials and what a process is known by."""
        http = BridgedHttp("POST /executors", [], BODY)
        headers = Headers({b"authorization": [f"Bearer {SECRET}".encode()]})
        text = SECRET.encode()
        made = executors.CreatedExecutor("id", URL, False, False)
        values = (
            Mine("worker", None, "runtime", SECRET),
            Credentials("ann", SECRET),
            SignedIn(True, User("ann", "ann"), SECRET),
            SavedToken("http://127.0.0.1:1", "ann", SECRET),
            Principal("authenticated", "user:ann", "ann", session=SECRET),
            Identity("gateway", SECRET),
            Descriptor(
                role="executor",
                instance_id="i",
                started_at=1,
                pid=1,
                base_url="http://127.0.0.1:1",
                local_capability=SECRET,
            ),
            executors.CreateExecutor(
                label="w", direction="controller-connects", connection_url=URL
            ),
            executors.UpdateExecutor(connection=EDIT),
            executors.Connection(URL, False, False),
            made,
            BridgedRequest("instance", http),
            BridgedReply(200, Raw(text)),
            Call(operations.CREATE_EXECUTOR, LOCAL_PRINCIPAL, None, BODY),
            Reply(BODY),
            Answer(200, text),
            Outgoing(200, text),
            Incoming("POST", "/", (), headers, 0, "127.0.0.1", False, body=text),
        )
        for value in values:
            self.assertNotIn(SECRET, repr(value), type(value).__name__)
            self.assertNotIn(SECRET, str(value), type(value).__name__)
