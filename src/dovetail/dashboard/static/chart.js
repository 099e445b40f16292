// A chart over time: amounts with axes and units, in SVG at the size of the screen. The values at a time are read with the
// pointer, by touch, with the arrow keys, by a screen reader, and in a table. Nothing is drawn where nothing is known.
import { fill, h, table, utc } from "./dom.js";
import { amountTicks, digitsOf, timeTicks } from "./scale.js";

const TOP = 10, BOTTOM = 24, RIGHT = 12;
const ROWS = 48; // of the table, at most
const COLORS = 7;

// `data`: { from, to, points: [{ at, until, note }], series: [{ name, values, total }], stacked, summary }, times in milliseconds.
// A value is null where it is not known. With `until`, a value holds from `at` until then; else values are joined by lines.
export function chart({ key, label, unit, text }) {
  let data = null, cursor = null, width = 0;
  const legend = h("ul", { class: "series", "aria-label": `${label}: series` });
  const readout = h("div", { class: "readout", hidden: true, "aria-hidden": "true" });
  const canvas = h("svg", { "aria-hidden": "true" });
  const plot = h("div", { class: "plot", tabindex: "0", role: "slider", "aria-label": `${label}, values at a time`, "data-hold": `chart-${key}` }, canvas, readout);
  const values = h("details", { class: "values", "data-key": `chart-${key}`, ontoggle: () => fillTable() }, h("summary", {}, "Values as a table"), h("div", {}));
  const empty = h("p", { class: "empty quiet" });
  const element = h("figure", { class: "chart", "data-chart": key, "aria-label": label }, legend, plot, empty, values);
  const known = () => data.points.map((_, index) => index).filter((index) => data.series.some((each) => each.values[index] !== null));

  function update(next) {
    const at = cursor === null || !data ? null : data.points[cursor]?.at;
    data = next;
    const shown = data.points.length > 0 && known().length > 0;
    for (const each of [legend, plot, values]) each.hidden = !shown;
    empty.hidden = shown;
    fill(empty, data.empty);
    if (!shown) return;
    cursor = at === null ? null : nearest(at);
    fill(legend, data.series.map((each, index) => h("li", {}, h("span", { class: `swatch ${color(each, index)}`, "aria-hidden": "true" }), each.name)));
    draw();
    speak();
    if (values.open) fillTable();
  }

  const color = (each, index) => (each.total ? "total" : `s${(index % COLORS) + 1}`);
  const nearest = (at) => data.points.reduce((best, each, index) => (Math.abs(middle(each) - at) < Math.abs(middle(data.points[best]) - at) ? index : best), 0);
  const middle = (point) => (point.until ? (point.at + point.until) / 2 : point.at);
  const x = (at) => data.left + ((at - data.from) / Math.max(1, data.to - data.from)) * (width - data.left - RIGHT);
  const y = (value) => TOP + (1 - (value - data.low) / (data.high - data.low)) * (data.height - TOP - BOTTOM);

  function draw() {
    width = plot.clientWidth;
    if (!data || !width) return;
    data.height = width < 560 ? 210 : 260;
    const bands = layers(data);
    const all = bands.flatMap((each) => [...each.tops, ...each.bottoms]).filter((each) => each !== null);
    const low = Math.min(0, ...all), high = Math.max(1e-4, ...all), room = (high - low) * 0.05;
    [data.low, data.high] = [low && low - room, high + room];
    const ticks = amountTicks(data.low, data.high, data.height < 240 ? 4 : 6), digits = digitsOf(ticks);
    data.left = 16 + Math.max(...ticks.map((each) => text(each, digits).length)) * 6.6;
    canvas.setAttribute("width", width);
    canvas.setAttribute("height", data.height);
    fill(canvas, unknown(), grid(ticks, digits), bands.map(band), h("line", { class: "zero", x1: data.left, x2: width - RIGHT, y1: y(0), y2: y(0) }), h("g", { class: "cursor" }));
    point();
  }

  function grid(ticks, digits) {
    const bottom = data.height - BOTTOM, days = timeTicks(data.from, data.to, Math.max(3, Math.floor((width - data.left) / 92)));
    return [
      ticks.map((each) => [h("line", { class: "grid", x1: data.left, x2: width - RIGHT, y1: y(each), y2: y(each) }), h("text", { x: data.left - 8, y: y(each) + 4, "text-anchor": "end" }, text(each, digits))]),
      days.map(({ at, text: name, midnight }) => [h("line", { class: midnight ? "grid day" : "grid", x1: x(at), x2: x(at), y1: TOP, y2: bottom }),
        h("text", { x: Math.min(Math.max(x(at), data.left + 14), width - 24), y: bottom + 17, "text-anchor": "middle" }, name)]),
    ];
  }

  // Time of which nothing is known, at the start of the window and in gaps.
  function unknown() {
    const spans = [];
    let since = data.from;
    for (const index of data.points[0]?.until ? known() : []) {
      const { at, until } = data.points[index];
      if (at > since + 1000) spans.push([since, Math.min(at, data.to)]);
      since = Math.max(since, until);
    }
    return spans.map(([from, to]) => h("rect", { class: "unknown", x: x(from), y: TOP, width: Math.max(0, x(to) - x(from)), height: data.height - TOP - BOTTOM }));
  }

  function band(each) {
    const runs = [];
    each.tops.forEach((top, index) => {
      if (top === null) return runs.push([]);
      if (!runs.length) runs.push([]);
      return runs.at(-1).push(index);
    });
    const edge = (run, heights) => run.flatMap((index) => {
      const { at, until } = data.points[index], height = y(heights[index]).toFixed(1);
      return until ? [`${x(at).toFixed(1)} ${height}`, `${x(until).toFixed(1)} ${height}`] : [`${x(at).toFixed(1)} ${height}`];
    });
    return runs.filter((run) => run.length).map((run) => {
      const upper = edge(run, each.tops), lower = edge(run, each.bottoms).reverse();
      return [each.filled && h("path", { class: `area ${each.color}`, d: `M ${[...upper, ...lower].join(" L ")} Z` }), h("path", { class: `edge ${each.color}`, d: `M ${upper.join(" L ")}` })];
    });
  }

  // What is drawn: stacked areas from the bottom up, or lines, of which the total has an area.
  function layers({ series, points, stacked }) {
    const base = points.map(() => 0);
    return series.map((each, index) => {
      const bottoms = stacked && !each.total ? [...base] : points.map(() => 0);
      const tops = each.values.map((value, at) => (value === null ? null : bottoms[at] + value));
      if (stacked && !each.total) tops.forEach((top, at) => { if (top !== null) base[at] = top; });
      return { tops, bottoms, color: color(each, index), filled: stacked ? !each.total : Boolean(each.total) };
    });
  }

  const when = ({ at, until }) => (until ? `${utc(new Date(at).toISOString()).replace(" UTC", "")} to ${utc(new Date(until).toISOString()).slice(11)}` : utc(new Date(at).toISOString()));
  const said = (each, index) => (each.values[index] === null ? "not known" : text(each.values[index]));
  const spoken = (each, index) => `${each.name} ${said(each, index)}${each.values[index] === null ? "" : unit}`;

  function point() {
    const lines = canvas.querySelector(".cursor");
    readout.hidden = cursor === null;
    if (cursor === null || !lines) return lines?.replaceChildren();
    const at = x(middle(data.points[cursor]));
    lines.replaceChildren(h("line", { x1: at, x2: at, y1: TOP, y2: data.height - BOTTOM }));
    fill(readout, h("b", {}, when(data.points[cursor])),
      h("dl", {}, [...data.series].reverse().map((each) => h("div", {}, h("dt", {}, h("span", { class: `swatch ${color(each, data.series.indexOf(each))}` }), each.name), h("dd", {}, said(each, cursor))))),
      data.points[cursor].note && h("span", { class: "quiet" }, data.points[cursor].note));
    const right = at < width / 2;
    readout.style.setProperty("left", right ? `${at + 12}px` : "auto");
    readout.style.setProperty("right", right ? "auto" : `${width - at + 12}px`);
  }

  function speak() {
    const index = cursor ?? data.points.length - 1, note = data.points[index].note;
    plot.setAttribute("aria-valuemin", 0);
    plot.setAttribute("aria-valuemax", data.points.length - 1);
    plot.setAttribute("aria-valuenow", index);
    plot.setAttribute("aria-valuetext", `${when(data.points[index])}: ${data.series.map((each) => spoken(each, index)).join(", ")}${note ? `, ${note}` : ""}`);
    plot.setAttribute("aria-description", data.summary);
  }

  function move(index) {
    cursor = index === null ? null : Math.min(data.points.length - 1, Math.max(0, index));
    point();
    speak();
  }

  function fillTable() {
    if (!values.open || !data) return;
    const every = Math.ceil(data.points.length / ROWS), some = data.points.map((_, index) => index).filter((index) => index % every === 0 || index === data.points.length - 1);
    const notes = data.points.some((each) => each.note);
    fill(values.lastChild, table(`${label}, values`, ["Time", ...data.series.map((each) => each.name), ...(notes ? ["Note"] : [])],
      some.reverse().map((index) => [when(data.points[index]), ...data.series.map((each) => said(each, index)), ...(notes ? [data.points[index].note] : [])]), { numeric: data.series.map((_, index) => index + 1) }),
      every > 1 && h("p", { class: "quiet" }, `One of ${every} values.`));
  }

  const follow = (event) => {
    const box = plot.getBoundingClientRect(), share = (event.clientX - box.left - data.left) / (width - data.left - RIGHT);
    move(nearest(data.from + Math.min(1, Math.max(0, share)) * (data.to - data.from)));
  };
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", () => document.activeElement !== plot && move(null));
  plot.addEventListener("focus", () => plot.matches(":focus-visible") && cursor === null && move(data.points.length - 1));
  plot.addEventListener("blur", () => move(null));
  plot.addEventListener("keydown", (event) => {
    const last = data.points.length - 1, now = cursor ?? last + 1, far = Math.max(1, Math.round(last / 10));
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageUp: now + far, PageDown: now - far, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  new ResizeObserver(() => draw()).observe(plot);
  return { element, update };
}
