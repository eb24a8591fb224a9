// The conversation: messages, calls and what else happened, in order.
import { $, make, say, shown } from "./dom.js";

const talk = $("#talk"), list = $("#items");
const nodes = new Map(), calls = new Map();  // by the id of an item, and of a call
let agent = "";
export const VERDICT = { approve: "Approved", edit: "Changed and approved", reject: "Rejected", respond: "Answered" };

// Change the list; its end stays in view if it was.
const change = (work) => {
  const near = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 90;
  work();
  $("#first").hidden = list.children.length > 0;
  if (near) toEnd();
};
export const toEnd = () => { talk.scrollTop = talk.scrollHeight; };

const put = (node) => { list.append(node); return node; };

export const setAgent = (name) => { agent = name; $("#agent").textContent = name; };

const message = (item) => {
  const mine = item.role === "user", text = item.text || "";
  let node = nodes.get(item.item_id);
  if (!node) {
    const who = mine ? "You" : item.agent || agent;
    node = put(make("li", { class: mine ? "msg user" : "msg", "data-by": who }, make("b", null, shown(who)), make("p")));
    node.classList.toggle("same", node.previousElementSibling?.dataset.by === who);
    nodes.set(item.item_id, node);
  }
  node.text = text;
  $("p", node).replaceChildren(...(text ? shown(text) : [make("span", { class: "soft" }, mine ? "Spoken" : "…")]));
  node.classList.toggle("now", !mine && item.status === "in_progress");
  if (mine) return;
  if (item.status === "incomplete" && !$("small", node)) node.append(make("small", null, "Interrupted"));
  if (item.status === "completed" && text && !node.told) { node.told = true; say(`${node.dataset.by}: ${text}`); }
};

// A call as a line: what it would do or has done, and who decided.
const line = (given) => {
  const call = calls.get(given.call_id) || {};
  for (const [name, value] of Object.entries(given)) if (value != null) call[name] = value;
  calls.set(call.call_id, call);
  call.node ||= put(make("li", null, make("div")));
  if (given.item_id) nodes.set(given.item_id, call.node);
  const ended = call.output != null || call.status === "completed", no = call.decision === "reject";
  const tag = call.waiting ? "waits for you" : call.decision ? `${VERDICT[call.decision]} by ${call.by}` : ended ? "" : "runs";
  call.node.className = `call ${call.waiting ? "waiting" : no ? "rejected" : ended ? "done" : ""}`;
  call.node.dataset.call = call.call_id;
  const brief = call.sentence ? "" : (call.rows || []).map(([name, json]) => ` ${name} ${json}`).join(",");
  $("div", call.node).replaceChildren(...[
    call.sentence && make(call.decision === "edit" ? "s" : "strong", null, shown(call.sentence)),
    make("code", null, shown(call.tool + (brief.length > 120 ? `${brief.slice(0, 120)}…` : brief))),
    tag && make("span", { class: `tag ${call.waiting ? "warn" : no ? "stop" : call.decision ? "ok" : ""}` }, shown(tag)),
    call.output != null && make("p", null, shown(call.output)),
  ].filter(Boolean));
};

export const showCall = (given) => change(() => line(given));
export const showItem = (given) => change(() => {
  if (given.type === "function_call") line({ ...given, tool: given.name });
  else if (given.role !== "system") message(given);
});
export const showDelta = ({ item_id, delta }) => change(() => message({ item_id, role: "assistant", text: (nodes.get(item_id)?.text || "") + delta, status: "in_progress" }));
export const showEvent = (words, bad) => change(() => put(make("li", { class: bad ? "event bad" : "event" }, shown(words))));
export const rest = () => { for (const each of list.querySelectorAll(".now")) each.classList.remove("now"); };
export const clear = () => change(() => { list.replaceChildren(); nodes.clear(); calls.clear(); });
