// Audio both ways: 16-bit PCM at 24 kHz in one channel.
import { $ } from "./dom.js";

const RATE = 24000, playing = new Set();
let context = null, ends = 0, sound = true, changed = () => {};

// -- the agent's voice ---------------------------------------------------------------------------
// Browsers play nothing before the first click or key, so this is called from those.
export const awake = () => {
  context ||= new AudioContext({ sampleRate: RATE });
  if (context.state === "suspended") context.resume().catch(() => {});
};
export const audible = () => playing.size > 0;
export const play = (coded) => {
  if (!sound || !context) return;
  const bytes = Uint8Array.from(atob(coded), (char) => char.charCodeAt(0));
  const samples = Float32Array.from(new Int16Array(bytes.buffer, 0, bytes.length >> 1), (each) => each / 32768);
  if (!samples.length) return;
  const buffer = context.createBuffer(1, samples.length, RATE);
  buffer.copyToChannel(samples, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(context.destination);
  source.onended = () => { playing.delete(source); changed(); };
  ends = Math.max(ends, context.currentTime + 0.03);
  source.start(ends);
  ends += buffer.duration;
  playing.add(source);
  changed();
};
export const hush = () => {
  for (const source of playing) { source.onended = null; source.stop(); }
  playing.clear();
  ends = 0;
  changed();
};
export const onChange = (work) => { changed = work; };
$("#sound").addEventListener("click", () => {
  sound = !sound;
  $("#sound").setAttribute("aria-pressed", sound);
  $("#sound").textContent = sound ? "Sound on" : "Sound off";
  if (sound) awake(); else hush();
});

// -- the microphone ------------------------------------------------------------------------------
const WHY = { NotAllowedError: "The microphone was not allowed.", NotFoundError: "No microphone was found." };
const base64 = (buffer) => btoa(Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join(""));
let ear = null;

export const listening = () => ear !== null;
// Give what is heard to `hear`; throw words if there is no microphone.
export const listen = async (hear) => {
  const mine = ear = {};
  try {
    if (!navigator.mediaDevices || !window.AudioWorkletNode) throw new Error("insecure");
    mine.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true } });
    mine.context = new AudioContext();
    await mine.context.audioWorklet.addModule("/static/microphone.js");
    mine.node = new AudioWorkletNode(mine.context, "microphone", { numberOfOutputs: 0 });
    mine.node.port.onmessage = ({ data }) => {
      if (ear !== mine) return;
      hear(base64(data));
      $("#speak").classList.toggle("loud", new Int16Array(data).some((each) => Math.abs(each) > 2500));
    };
    mine.context.createMediaStreamSource(mine.stream).connect(mine.node);
    if (ear !== mine) end(mine);
  } catch (error) {
    end(mine);
    if (ear === mine) ear = null;
    throw new Error(`${WHY[error.name] || "The microphone cannot be used here."} You can go on by typing.`);
  }
};
const end = (one) => { one.stream?.getTracks().forEach((track) => track.stop()); one.context?.close(); };
export const deafen = () => { if (ear) end(ear); ear = null; $("#speak").classList.remove("loud"); };
