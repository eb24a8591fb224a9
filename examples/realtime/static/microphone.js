// Turns the microphone's samples into 16-bit PCM at 24 kHz, a tenth of a second at a time.
"use strict";
const RATE = 24000, SIZE = RATE / 10;

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.made = new Int16Array(SIZE);
    this.filled = 0;
    this.sum = 0;
    this.count = 0;
    this.phase = 0;
    this.last = 0;
  }

  put(value) {
    this.made[this.filled++] = Math.max(-1, Math.min(1, value)) * 32767;
    if (this.filled < SIZE) return;
    this.port.postMessage(this.made.buffer, [this.made.buffer]);
    this.made = new Int16Array(SIZE);
    this.filled = 0;
  }

  process([[samples]]) {
    // Each sample advances the output by less than one when the device is faster than 24 kHz: then samples are averaged.
    for (const sample of samples || []) {
      this.sum += sample;
      this.count += 1;
      this.phase += RATE / sampleRate;
      while (this.phase >= 1) {
        if (this.count) this.last = this.sum / this.count;
        this.put(this.last);
        this.sum = this.count = 0;
        this.phase -= 1;
      }
    }
    return true;
  }
}
registerProcessor("microphone", Microphone);
