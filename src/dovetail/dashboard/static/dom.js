// Small things every view needs: elements, times, amounts. Text only: nothing is ever parsed as HTML.

export function h(tag, props = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "g", "rect", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") Object.entries(value).forEach(([name, each]) => element.style.setProperty(name, each));
    else if (key === "value" && !svg) element.value = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

export const two = (number) => String(number).padStart(2, "0");
export const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
export const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function utc(instant, now, exact = false) {
  const at = new Date(instant);
  const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}` + (exact || at.getUTCSeconds() ? `:${two(at.getUTCSeconds())}` : "");
  if (now && new Date(now).toISOString().slice(0, 10) === at.toISOString().slice(0, 10)) return `${clock} UTC`;
  return `${DAYS[at.getUTCDay()]} ${two(at.getUTCDate())} ${MONTHS[at.getUTCMonth()]} ${clock} UTC`;
}

// An instant in UTC; on hover it is local.
export function time(instant, now, exact = false) {
  if (!instant) return null;
  const local = new Date(instant).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  return h("time", { datetime: instant, title: `Here: ${local}` }, utc(instant, now, exact));
}

export const money = (amount, digits = 3) =>
  (amount < 0 ? "−$" : "$") + Math.abs(amount).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const HOURS_PER_MONTH = 730;
export const monthly = (hourly) => money(hourly * HOURS_PER_MONTH, 2);
export const counted = (number, thing) => `${number.toLocaleString("en-US")} ${thing}${number === 1 ? "" : "s"}`;
export const percent = ([used, total]) => (total > 0 ? Math.round((used / total) * 100) : 0);
export const bytes = (amount) => `${(amount / 2 ** 30).toFixed(amount < 2 ** 30 ? 2 : 1)} GiB`;
export const cores = (amount) => `${Math.round(amount * 1000) / 1000}`;

export function age(since, now) {
  const seconds = Math.max(0, (new Date(now) - new Date(since)) / 1000);
  if (seconds < 120) return `${Math.round(seconds)}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)}h`;
  return `${Math.round(seconds / 86400)}d`;
}

// How long an obstacle lasts.
export function lasting(each, now) {
  if (each.until) return h("span", { class: "lasts until" }, "until ", time(each.until, now));
  return each.permanent
    ? h("span", { class: "lasts permanent", title: "Does not lift without a change by a user" }, "permanent")
    : h("span", { class: "lasts open" }, "may change");
}

export const link = (view, ...parts) => `#/${[view, ...parts.map(encodeURIComponent)].join("/")}`;
export const nodeLink = (name) => h("a", { href: link("node", name), class: "mono" }, name);
export const badge = (kind, text) => h("span", { class: `badge ${kind.toLowerCase().replaceAll(" ", "-")}` }, text ?? kind);

// With `stack`, a narrow screen shows the last cell of each row below the others.
export function table(caption, headings, rows, { numeric = [], stack = false } = {}) {
  const side = (index) => (numeric.includes(index) ? "number" : null);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h("table", { class: stack && "stack" },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, headings.map((each, index) => h("th", { scope: "col", class: side(index) }, each)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h("td", { class: side(index) }, cell)))))));
}

export function meter(label, pair, text) {
  const share = percent(pair);
  return h("div", { class: "meter" },
    h("span", { class: "what" }, label),
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: share > 100 ? "used over" : "used", style: { width: `${Math.min(100, share)}%` } })),
    h("span", { class: "share" }, text ?? `${share}%`));
}

export function select(label, options, value, changed) {
  const field = h("select", { onchange: (event) => changed(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return h("label", { class: "field" }, h("span", {}, label), field);
}
