// Garcon's part inside Pi: it asks before each tool call, names Pi's version and the entries of the
// session, and brings the profile's endpoint.  Loaded by --extension; Pi does not start where it
// cannot be loaded.  Another session in the same process loads it again.
import { VERSION } from "@earendil-works/pi-coding-agent";

const ENDPOINT = "GARCON_PI_ENDPOINT";
const FORK_AT = "GARCON_PI_FORK_AT";
const given = (globalThis[Symbol.for("garcon")] ??= {
  endpoint: process.env[ENDPOINT],
  forkAt: process.env[FORK_AT],
});
delete process.env[ENDPOINT]; // commands of the model are not to inherit a key
delete process.env[FORK_AT];

export default function (pi) {
  let said = false; // an answer whose entry was not named yet
  const name = (key, ctx) => {
    const last = ctx.sessionManager.getLeafEntry();
    // What the user or an extension has said is no point to go on from: Pi would take it back.
    const input = last?.type === "custom_message" || last?.message?.role === "user";
    if (last && !input) ctx.ui.setStatus(key, last.id);
  };
  const nameAnswer = (_event, ctx) => {
    if (said) name("garcon-answer", ctx);
    said = false;
  };

  if (given.endpoint) pi.registerProvider("garcon", JSON.parse(given.endpoint));
  pi.on("session_start", (_event, ctx) => {
    ctx.ui.setStatus("garcon-session", ctx.sessionManager.getSessionId());
    ctx.ui.setStatus("garcon", VERSION);
  });
  pi.on("tool_call", async (event, ctx) => {
    const call = { id: event.toolCallId, name: event.toolName, input: event.input };
    const allowed = await ctx.ui.confirm("garcon", JSON.stringify(call), { signal: ctx.signal });
    if (allowed !== true) return { block: true, reason: "This was not allowed." };
  });
  pi.on("message_end", (event) => {
    said ||= event.message.role === "assistant";
  });
  // Both come once an answer's entry is there, and before anything else is.
  pi.on("tool_execution_start", nameAnswer);
  pi.on("turn_end", nameAnswer);
  pi.on("agent_settled", (_event, ctx) => name("garcon-end", ctx));
  pi.on("session_compact", (_event, ctx) => name("garcon-end", ctx));
  if (!given.forkAt) return;
  pi.registerCommand("garcon-fork", {
    description: "Go back to where a fork begins",
    handler: async (_args, ctx) => {
      const entry = given.forkAt;
      if (!entry) return;
      given.forkAt = undefined;
      const { cancelled } = await ctx.navigateTree(entry);
      if (!cancelled) ctx.ui.setStatus("garcon-fork", entry);
    },
  });
}
