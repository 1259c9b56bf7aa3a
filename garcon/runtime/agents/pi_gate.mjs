// Garcon's part inside Pi: it asks before each tool call, names Pi's version, and brings the
// profile's endpoint.  Loaded by --extension; Pi does not start where it cannot be loaded.
import { VERSION } from "@earendil-works/pi-coding-agent";

const ENDPOINT = "GARCON_PI_ENDPOINT";
const endpoint = process.env[ENDPOINT];
delete process.env[ENDPOINT]; // commands of the model are not to inherit a key

export default function (pi) {
  if (endpoint) pi.registerProvider("garcon", JSON.parse(endpoint));
  pi.on("session_start", (_event, ctx) => {
    ctx.ui.setStatus("garcon", VERSION);
  });
  pi.on("tool_call", async (event, ctx) => {
    const call = { id: event.toolCallId, name: event.toolName, input: event.input };
    const allowed = await ctx.ui.confirm("garcon", JSON.stringify(call), { signal: ctx.signal });
    if (allowed !== true) return { block: true, reason: "This was not allowed." };
  });
}
