// Elements from text. What comes from the server becomes text nodes, never markup.
export const $ = (query, from = document) => from.querySelector(query);
export const $$ = (query, from = document) => [...from.querySelectorAll(query)];

export const make = (tag, given, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value != null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
};

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0e\uffa0]/u;
const PICTURE = /\p{Extended_Pictographic}\ufe0f?$/u;

// The text in parts; a character that shows nothing, or reorders others, is spelled out.
export const shown = (text) => {
  if (!HIDDEN.test(text)) return [text];
  const parts = [];
  let seen = "";
  for (const char of text) {
    if (!HIDDEN.test(char) || char === "\n" || char === "\t" || (char === "\u200d" && PICTURE.test(seen))) seen += char;
    else {
      parts.push(seen, make("u", { class: "ch" }, `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`));
      seen = "";
    }
  }
  return [...parts, seen];
};

export const say = (words, where = "#said") => { $(where).textContent = words; };
