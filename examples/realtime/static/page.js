// The page of a live session: it connects, sends what you say, and shows what happens.
import { $, $$, say } from "./dom.js";
import * as audio from "./audio.js";
import * as card from "./card.js";
import * as talk from "./talk.js";

const box = $("#text"), speak = $("#speak");
let socket = null, live = false, replying = false, manual = true;

const tell = (message) => {
  if (live) socket.send(JSON.stringify(message));
  return live;
};

// -- type, speak, stop ---------------------------------------------------------------------------
const hint = (words, warn) => { $("#hint").textContent = words; $("#hint").classList.toggle("warn", !!warn); };
const grow = () => { box.style.height = ""; box.style.height = `${box.scrollHeight + 2}px`; };
const submit = (words) => {
  audio.awake();
  if (!words.trim() || !tell({ type: "text", text: words.trim() })) return;
  audio.hush();
  hint("");
  box.value = "";
  grow();
  talk.toEnd();
};
box.addEventListener("input", grow);
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(box.value); }
});
$("#say").addEventListener("submit", (event) => { event.preventDefault(); submit(box.value); });
for (const each of $$(".tries button")) each.addEventListener("click", () => { submit(each.textContent); box.focus(); });

const busy = () => { $("#stop").hidden = !(replying || audio.audible()); };
audio.onChange(busy);
const interrupt = () => { audio.hush(); tell({ type: "interrupt" }); };
$("#stop").addEventListener("click", () => { interrupt(); box.focus(); });
addEventListener("keydown", (event) => { if (event.key === "Escape" && !$("#stop").hidden) interrupt(); });

let heard = false;
const showSpeak = () => {
  const on = audio.listening();
  speak.setAttribute("aria-pressed", on);
  $("span", speak).textContent = !on ? "Speak" : manual ? "Done" : "Mute";
};
const deafen = () => { audio.deafen(); showSpeak(); hint(""); };
speak.addEventListener("click", async () => {
  audio.awake();
  if (audio.listening()) {
    deafen();
    if (manual && heard) tell({ type: "commit_audio" });
    return;
  }
  if (manual && !$("#stop").hidden) interrupt();
  heard = false;
  try {
    const listening = audio.listen((data) => { heard = tell({ type: "audio", data }) || heard; });
    showSpeak();
    await listening;
    if (audio.listening()) hint(manual ? "Listening. Choose Done when you have finished." : "Listening. Speak at any time.");
  } catch (error) { showSpeak(); hint(error.message, true); }
});

// -- what the server says ------------------------------------------------------------------------
const decide = (decision) => tell({ type: "tool_approval_decision", ...decision });
const on = {
  hello: (given) => {
    failed = 0;
    manual = given.turns === "manual";
    talk.clear();
    card.clear();
    talk.setAgent(given.agent);
    given.items.forEach(talk.showItem);
    given.calls.forEach(talk.showCall);
    given.waiting.forEach((each) => card.ask(each, decide));
    state("live");
    talk.toEnd();
  },
  history_added: (given) => talk.showItem(given.item),
  history_updated: (given) => given.items.forEach(talk.showItem),
  transcript_delta: talk.showDelta,
  agent_start: (given) => { replying = true; talk.setAgent(given.agent); busy(); },
  agent_end: () => { replying = false; talk.rest(); busy(); },
  tool_start: talk.showCall,
  tool_end: (given) => { talk.showCall(given); say(`${given.tool}: ${given.output}`); },
  tool_approval_required: (given) => card.ask(given, decide),
  tool_approval_decided: (given) => {
    talk.showCall({ ...given, waiting: false });
    card.settle(given.call_id);
    say(`${talk.VERDICT[given.decision]} by ${given.by}`);
  },
  handoff: (given) => { talk.showEvent(`${given.from} handed over to ${given.to}`); talk.setAgent(given.to); say(`You talk to ${given.to} now.`); },
  guardrail_tripped: (given) => { audio.hush(); talk.showEvent(`A guardrail stopped this reply: ${given.guardrails.join(", ")}`, true); },
  audio: (given) => audio.play(given.audio),
  audio_interrupted: audio.hush,
  connection: (given) => {
    if (given.status === "connected") state("live");
    if (given.status === "disconnected") state("away", "The connection to the model is lost; it is made again. You can go on typing and deciding.");
  },
  ended: (given) => { failed = MOST; state("lost", given.message); },
  error: (given) => { if (!card.refuse(given.call_id, given.message)) talk.showEvent(given.message, true); say(given.message); },
};

// -- the connection ------------------------------------------------------------------------------
const MOST = 6, NAMES = { live: "Live", away: "Reconnecting", connecting: "Connecting", reconnecting: "Reconnecting", lost: "Lost" };
const token = $("meta[name=token]").content;
let failed = 0, later = 0;

const state = (name, words) => {
  live = name === "live" || name === "away";
  $("#live").dataset.state = name;
  $("#live").textContent = NAMES[name];
  $("#bar").hidden = !words;
  $("#bar span").textContent = words ? words + (live ? "" : card.kept()) : "";
  $("#again").hidden = name !== "lost";
  for (const each of $$("#send, #speak, .tries button, .ask button")) each.disabled = !live;
  speak.disabled = name !== "live";
  if (name === "live") return;
  deafen();
  audio.hush();
  replying = false;
  busy();
};
const fresh = () => {
  const id = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(18)))).replaceAll("+", "-").replaceAll("/", "_");
  sessionStorage.setItem("session", id);
  return id;
};
const connect = () => {
  clearTimeout(later);
  const id = sessionStorage.getItem("session") || fresh();
  const mine = socket = new WebSocket(`${location.origin.replace("http", "ws")}/ws/${id}`, ["assentry.realtime", `token.${token}`]);
  mine.onmessage = (message) => { if (mine === socket) { const given = JSON.parse(message.data); on[given.type]?.(given); } };
  mine.onclose = (closed) => {
    if (mine !== socket) return;
    if (closed.code === 4001) state("lost", "This conversation is open in another window.");
    else if (failed < MOST) {
      state("reconnecting", "The connection is lost; it is made again.");
      later = setTimeout(connect, Math.min(8000, 300 * 2 ** failed++));
    } else if ($("#bar").hidden || $("#again").hidden) state("lost", "The connection is lost.");
  };
};
$("#again").addEventListener("click", () => { failed = 0; state("reconnecting", "Connecting again."); connect(); });
$("#new").addEventListener("click", () => { const old = socket; socket = null; old.close(); fresh(); talk.clear(); card.clear(); failed = 0; state("connecting"); connect(); box.focus(); });
state("connecting");
connect();
