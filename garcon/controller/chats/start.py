"""Starting a chat: a durable first input, then a launch, then the answer (chats.md 3.4, 5.1)."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import uuid4

from attrs import define, frozen
from msgspec import UNSET
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.logger import Logger

from garcon.contract.catalogs import AgentEntry
from garcon.contract.chats import StartAccepted, StartChat
from garcon.contract.events import ListRefreshRequested, SessionDeleted
from garcon.contract.limits import INTERACTIVE_READ
from garcon.contract.messages import Presentation
from garcon.contract.runs import Launch, ProjectInspection
from garcon.controller.chats import attachments, fields
from garcon.controller.chats.agents import executor_silent
from garcon.controller.chats.attachments import Attachment
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.launching import START_UNKNOWN, TurnStopped, is_unknown
from garcon.controller.chats.ledger import Record, digested, fingerprint
from garcon.controller.chats.models import (
    Selection,
    must_be_offered,
    must_support_modes,
    takes_pictures,
)
from garcon.controller.chats.preambles import ahead
from garcon.controller.chats.state import State, answer_to, duplicate_of, receipt_location
from garcon.controller.chats.turns import OUTCOME_UNKNOWN, Turn
from garcon.controller.handlers import Call, Reply
from garcon.controller.preambles.matching import Place
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.resend import Prompt
from garcon.controller.transcripts.transcript import Transcript
from garcon.errors import GarconError, validation
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.runtime.projects import NO_ACCESS
from garcon.store.records import ChatRecord, PutChat, PutView, RemoveChat, Row, TouchChat

COMMAND = "chat-start"


@frozen
class _Start:
    """A start whose fields are in order."""

    body: StartChat
    request_id: str
    message_id: str
    chat_id: str
    executor_id: str
    agent_id: str
    project_path: str
    command: str
    selection: Selection
    permission_mode: Any
    thinking_mode: Any
    attached: list[Attachment]
    tags: list[str]
    parent_chat_id: str | None
    presentation: Presentation | None
    ordered_preamble_ids: list[str] | None

    def fingerprint(self) -> bytes:
        """Digest what makes a start the same one (chats.md 2.3, decisions.md 26)."""
        return fingerprint(
            {
                "chatId": self.chat_id,
                "clientMessageId": self.message_id,
                "executorId": self.executor_id,
                "agentId": self.agent_id,
                "projectPath": self.project_path,
                "command": self.command,
                "images": digested(self.body.images),
                "permissionMode": self.permission_mode,
                "thinkingMode": self.thinking_mode,
                "agentSettings": self.body.agent_settings,
                "tags": self.tags,
                "parentChatId": self.parent_chat_id,
                "orderedPreambleIds": self.ordered_preamble_ids,
                "userMessagePresentation": self.presentation,
                **self.selection.stored(),
            }
        )


@define(eq=False)
class Starts:
    """Serves ``POST /chats/start``."""

    _log: ClassVar[Logger] = Logger()

    _state: State

    async def start(self, call: Call[Any, StartChat]) -> Reply:
        """Start a chat and its first turn."""
        wish = _read(call.body, must_name_executor=call.principal.kind == "executor")
        self._state.must_be_open()
        return await self._state.lanes.run(wish.chat_id, lambda: self._start(wish))

    async def _start(self, wish: _Start) -> Reply:
        state = self._state
        state.must_be_open()
        mark = wish.fingerprint()
        replayed = state.ledger.replayed(COMMAND, wish.chat_id, wish.request_id, mark)
        if replayed is not None:
            return self._reply(replayed, duplicate_of(replayed))
        if state.registry.find(wish.chat_id) is not None:
            raise GarconError("CHAT_ID_COLLISION", "That chat exists already.", status=409)
        runtime = state.executors.runtime(wish.executor_id)
        entry = await state.agents.entry(wish.executor_id, wish.agent_id)
        _must_suit(wish, entry)
        if wish.parent_chat_id is not None:
            state.registry.get(wish.parent_chat_id)
        project = await self._inspect(runtime, wish)
        state.must_be_open()
        preambles = state.preambles.selected(
            wish.ordered_preamble_ids,
            Place(wish.executor_id, project.project_key),
            wish.agent_id,
            wish.tags,
        )
        record = state.ledger.accept(
            COMMAND, wish.chat_id, wish.request_id, mark, state.now(), str(uuid4())
        )
        try:
            chat, turn = await self._create(wish, record, project, preambles)
        except CancelledError:
            raise
        except Exception as error:
            state.ledger.fail(record, error)
            raise
        launch = _launch(wish, turn.run_id, project, state.preambles.text(chat.record))
        try:
            await turn.launch(runtime, launch)
        except CancelledError:
            await self._roll_back(chat, turn, record, _stopping())
            raise
        except Exception as cause:
            if isinstance(cause, TurnStopped) and not state.is_shutting_down:
                # Whoever stopped it has the chat all the same, with what was asked.
                await turn.settled()
            else:
                failure = self._launch_error(turn, cause)
                await self._roll_back(chat, turn, record, failure)
                raise failure from None
        state.publish(ListRefreshRequested(chat_id=chat.id, reason="chat-added"))
        for follower in state.started:
            follower(chat.record)
        return self._reply(record, answer_to(record))

    async def _inspect(self, runtime: IExecutorRuntime, wish: _Start) -> ProjectInspection:
        try:
            return await runtime.inspect_project(wish.project_path).addTimeout(
                INTERACTIVE_READ, self._state.clock
            )
        except TimeoutError:
            raise executor_silent(wish.executor_id) from None
        except GarconError as error:
            if error.code in ("PROJECT_PATH_NOT_FOUND", NO_ACCESS):
                raise validation(error.text, status=404) from None
            raise

    async def _create(
        self,
        wish: _Start,
        record: Record,
        project: ProjectInspection,
        preambles: list[str],
    ) -> tuple[Chat, Turn]:
        """Make the chat and its first row durable, then visible, its turn reserved."""
        state = self._state
        turn_id = record.turn_id or ""
        stored = _record(wish, project, preambles, record.accepted_at, state.registry.top("normal"))
        early: list[tuple[str, tuple[Row, ...]]] = []
        transcript = _transcript(state, wish.chat_id, early)
        chat = Chat(stored, transcript)
        at, preview = record.accepted_at, stored.first_message
        images = [one.image for one in wish.attached]
        await transcript.append(
            [rows.user_input(at, wish.command, images, wish.message_id, wish.presentation)],
            before=[PutChat(stored), PutView(wish.chat_id, transcript.view_id)],
            after=[TouchChat(wish.chat_id, at, preview)],
        )
        chat.active(at, preview)
        turn = Turn(state, chat, turn_id, record, holds_lane=True)
        state.registry.add(chat)
        state.receipts.begin(wish.chat_id, turn_id, wish.request_id, at)
        turn.reserve()
        # As with every later turn: that it runs is told ahead of its input.
        for view_id, added in early:
            state.rows_committed(wish.chat_id, view_id, added)
        return chat, turn

    def _launch_error(self, turn: Turn, cause: Exception) -> GarconError:
        if is_unknown(cause) or (isinstance(cause, TurnStopped) and cause.may_have_begun):
            # It may have run: it must not be taken for one that can be tried again.
            return GarconError("INTERNAL_ERROR", START_UNKNOWN, status=500, details=OUTCOME_UNKNOWN)
        if isinstance(cause, TurnStopped):
            return _stopping()
        if isinstance(cause, GarconError):
            if cause.retryable:
                return cause
            return GarconError(
                "INTERNAL_ERROR",
                f"The agent could not be started: {cause.text}",
                status=500,
                details=cause.code,
            )
        self._log.failure("launching {run} failed", run=turn.run_id)
        return GarconError("INTERNAL_ERROR", "The agent could not be started.", status=500)

    async def _roll_back(self, chat: Chat, turn: Turn, record: Record, error: GarconError) -> None:
        """Leave nothing of a chat whose launch failed but the receipt that says so."""
        state = self._state
        turn.release()
        state.registry.remove(chat.id)
        state.publish(SessionDeleted(chat_id=chat.id))
        at = state.now()
        state.receipts.settle(chat.id, turn.run_id, "failed", at, error=error.text)
        state.ledger.settle(record, "failed")
        if error.retryable:
            state.ledger.fail(record, error)
        try:
            await state.store.write([RemoveChat(chat.id)])
        except GarconError as refusal:
            self._log.error("{chat} could not be removed: {why}", chat=chat.id, why=refusal.text)

    def _reply(self, record: Record, members: dict[str, Any]) -> Reply:
        chat = self._state.registry.find(record.chat_id)
        entry = None if chat is None else self._state.entry(chat)
        accepted = StartAccepted(
            **members, chat=entry, parent_chat=None if chat is None else chat.parent()
        )
        return Reply(accepted, headers=receipt_location(record.chat_id, record.turn_id))


def _read(body: StartChat, *, must_name_executor: bool) -> _Start:
    if body.options is not UNSET:
        raise validation("options may not be sent")
    fields.no_answers_member(body)
    if must_name_executor and body.executor_id is None:
        raise validation("executorId is required here")
    request_id = fields.client_id(body.client_request_id, "clientRequestId")
    message_id = fields.client_id(body.client_message_id, "clientMessageId")
    chat_id = fields.chat_id(body.chat_id)
    agent_id = fields.required(body.agent_id, "agentId")
    selection = Selection(
        fields.required(body.model, "model"),
        fields.optional(body.api_provider_id, "apiProviderId"),
        fields.optional(body.model_endpoint_id, "modelEndpointId"),
        body.model_protocol,
    )
    if fields.agent_settings(body.agent_settings).owner_id != agent_id:
        raise validation("agentSettings belongs to another agent")
    command = body.command.strip()
    if not command and not body.images:
        raise validation("command is required")
    parent = body.parent_chat_id
    if parent is not None:
        parent = fields.chat_id(parent, "parentChatId")
        if parent == chat_id:
            raise validation("a chat is not its own parent")
    return _Start(
        body=body,
        request_id=request_id,
        message_id=message_id,
        chat_id=chat_id,
        executor_id=fields.executor_id(body.executor_id),
        agent_id=agent_id,
        project_path=fields.required(body.project_path, "projectPath"),
        command=command,
        selection=selection,
        permission_mode=fields.permission_mode(body.permission_mode),
        thinking_mode=fields.thinking_mode(body.thinking_mode),
        attached=attachments.read(body.images),
        tags=fields.tags(body.tags),
        parent_chat_id=parent,
        presentation=fields.presentation(body.user_message_presentation),
        ordered_preamble_ids=body.ordered_preamble_ids,
    )


def _must_suit(wish: _Start, entry: AgentEntry) -> None:
    must_be_offered(entry, wish.selection)
    must_support_modes(entry, wish.permission_mode, wish.thinking_mode)
    pictures = takes_pictures(entry, wish.selection)
    attachments.must_be_supported(wish.attached, entry, images=pictures)


def _record(
    wish: _Start, project: ProjectInspection, preambles: list[str], at: str, position: int
) -> ChatRecord:
    return ChatRecord(
        chat_id=wish.chat_id,
        executor_id=wish.executor_id,
        agent_id=wish.agent_id,
        agent_ownership_epoch=str(uuid4()),
        agent_settings=wish.body.agent_settings,
        permission_mode=wish.permission_mode,
        thinking_mode=wish.thinking_mode,
        project_path=project.project_path,
        project_key=project.project_key,
        tags=wish.tags,
        first_message=fields.first_line(wish.command),
        parent_chat_id=wish.parent_chat_id,
        origin=wish.body.origin,
        ordered_preamble_ids=preambles,
        position=position,
        created_at=at,
        model=wish.selection.model,
        api_provider_id=wish.selection.api_provider_id,
        model_endpoint_id=wish.selection.model_endpoint_id,
        model_protocol=wish.selection.model_protocol,
    )


def _transcript(state: State, chat_id: str, early: list[tuple[str, tuple[Row, ...]]]) -> Transcript:
    """Return a new chat's transcript; rows that are kept before the chat is there go to `early`."""

    def committed(view_id: str, added: tuple[Row, ...]) -> None:
        if state.registry.find(chat_id) is None:
            early.append((view_id, added))
        else:
            state.rows_committed(chat_id, view_id, added)

    return Transcript(state.store, str(uuid4()), 0, committed=committed)


def _launch(wish: _Start, run_id: str, project: ProjectInspection, preamble: str | None) -> Launch:
    images = [one.image for one in wish.attached]
    prompt, _ = ahead(preamble, Prompt(wish.command, tuple(images)), [])
    return Launch(
        chat_id=wish.chat_id,
        run_id=run_id,
        binding_id=str(uuid4()),
        agent_id=wish.agent_id,
        model=wish.selection.model,
        permission_mode=wish.permission_mode,
        thinking_mode=wish.thinking_mode,
        agent_settings=wish.body.agent_settings,
        project_path=project.project_path,
        prompt=prompt.text,
        images=images,
        **wish.selection.routing(),
    )


def _stopping() -> GarconError:
    return GarconError(
        "SERVER_SHUTTING_DOWN", "The controller is stopping.", status=503, retryable=True
    )
