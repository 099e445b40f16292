// One node: the verdict first, then what stands between it and each way of disrupting it, its pods, its conditions, and what happened to it.
import { age, badge, bytes, cores, counted, h, lasting, link, meter, money, nodeLink, table, time } from "./dom.js";
import { entry } from "./decisions.js";
import { label } from "./labels.js";
import { ask } from "./store.js";

export const title = (at) => at.parts[0] ?? "Node";

export function open({ put, store, at }) {
  const name = at.parts[0] ?? "", path = encodeURIComponent(name);
  async function load() {
    const history = `api/history?node=${path}&most=200`;
    if (!store.nodes.has(name)) {
      const past = await ask(history);
      return () => put(gone(name, past, store.summary.at));
    }
    const [facts, data, past] = await Promise.all([ask(`api/node/${path}`), ask(`api/explain/node/${path}`), ask(history)]);
    return () => put(draw(facts, data, past, store.nodes.get(facts.node)));
  }
  return { load };
}

function draw(facts, data, past, tile) {
  const now = data.at;
  return [
    h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/cluster" }, "Cluster"), " / ",
      facts.nodepool ? h("a", { href: link("pools", facts.nodepool) }, facts.nodepool) : "unmanaged"),
    h("div", { class: "headline" }, h("h1", { class: "mono" }, facts.node), badge(`state-${facts.state}`, facts.state)),
    h("p", { class: `verdict ${data.verdict.outcome}${data.verdict.permanent ? " permanent" : ""}` }, `${data.verdict.line}.`),
    h("p", { class: "facts" }, facts.labels["node.kubernetes.io/instance-type"], " · ", facts.labels["karpenter.sh/capacity-type"], " · ",
      facts.labels["topology.kubernetes.io/zone"], " · ", h("b", {}, money(facts.pricePerHour)), " an hour",
      facts.createdAt && [" · ", age(facts.createdAt, now), " old, since ", time(facts.createdAt, now)],
      facts.nodeClaim && [" · NodeClaim ", h("span", { class: "mono" }, facts.nodeClaim)]),
    tile && h("div", { class: "meters" },
      meter("cpu", tile.cpu, `${cores(tile.cpu[0])} of ${cores(tile.cpu[1])}`),
      meter("memory", tile.memory, `${bytes(tile.memory[0])} of ${bytes(tile.memory[1])}`),
      meter("pods", tile.pods, `${tile.pods[0]} of ${tile.pods[1]}`)),
    data.repair && repair(data.repair, now),
    data.draining && draining(data.draining, now),
    data.drift && drift(data.drift),
    data.sharedObstacles.length > 0 && h("section", { "aria-labelledby": "obstacles" }, h("h2", { id: "obstacles" }, "Obstacles"),
      table("Obstacles that stop several methods", ["Obstacle", "Lasts", "Stops"],
        data.sharedObstacles.map((each) => [each.message, lasting(each, now), each.methods.length === data.methods.length ? "all methods" : each.methods.join(", ")]))),
    h("section", { "aria-labelledby": "why" }, h("h2", { id: "why" }, "Method by method"),
      h("div", { class: "methods" }, data.methods.map((each) => method(each, now)))),
    h("section", { "aria-labelledby": "pods" }, h("h2", { id: "pods" }, counted(facts.pods.length, "pod")), pods(facts.pods, now)),
    h("section", { "aria-labelledby": "past" }, h("h2", { id: "past" }, "History"),
      timeline(past, now, milestones(facts, now))),
    h("section", { "aria-labelledby": "conditions" }, h("h2", { id: "conditions" }, "Conditions"),
      table("Conditions", ["Of", "Condition", "Status", "Since", "Reason", "Message"],
        facts.conditions.map((each) => [each.of, each.type, each.status, time(each.since, now), each.reason, each.message]))),
    h("details", { "data-key": "labels" }, h("summary", {}, "Labels, annotations, taints"),
      table("Labels, annotations and taints", ["Kind", "Name", "Value"], [
        ...Object.entries(facts.labels).map((each) => ["label", ...each]),
        ...Object.entries(facts.annotations).map((each) => ["annotation", ...each]),
        ...facts.taints.map((each) => ["taint", each, ""])])),
  ];
}

// What the ledger knows, among the steps the node itself has taken; newest first.
function timeline(past, now, steps = []) {
  const decided = past.decisions.map((each) => ({ at: each.at, item: () => h("li", { class: "decided" }, entry(each, now, false, now)) }));
  const all = [...decided, ...steps].sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  return [
    !decided.length && h("p", { class: "quiet" }, past.missing ?? "The ledger has no decision about it."),
    all.length > 0 && h("ol", { class: "timeline" }, all.map((each) => each.item())),
  ];
}

function milestones(facts, now) {
  const step = (at, ...what) => ({ at, item: () => h("li", { class: "milestone" }, h("span", {}, time(at, now, true)), h("span", {}, ...what)) });
  const steps = facts.conditions.filter((each) => each.since && each.status === "True" && (each.of === "NodeClaim" || each.type !== "Ready")).map((each) =>
    step(each.since, each.type, each.reason && each.reason !== each.type && ` (${each.reason})`, each.message && h("span", { class: "quiet" }, ` ${each.message}`)));
  if (facts.createdAt) steps.push(step(facts.createdAt, "Created"));
  return steps;
}

// A node that is not there any more, or never was: the ledger may still know it.
function gone(name, past, now) {
  return [
    h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/cluster" }, "Cluster")),
    h("div", { class: "headline" }, h("h1", { class: "mono" }, name), badge("state-gone", "not there")),
    h("section", { "aria-labelledby": "past" }, h("h2", { id: "past" }, "History"), timeline(past, now)),
  ];
}

function method(each, now) {
  return h("article", { class: each.command ? "method goes" : "method" },
    h("h3", {}, each.method, " ", h("span", { class: "quiet" }, each.reason)),
    each.command && h("p", { class: "command" }, each.after ? `Can leave after ${each.after} has acted: ` : "Leaves in the next pass: ", each.command),
    each.obstacles.length > 0 && h("ol", {}, each.obstacles.map((one) => h("li", {}, h("span", { class: "code", title: one.code }, label(one.code)), " ", one.message, " ", lasting(one, now)))),
    each.liftsAt && each.obstacles.length > 1 && h("p", { class: "lifts" }, "All obstacles end by ", time(each.liftsAt, now)));
}

function drift(data) {
  return h("section", { class: "drain", "aria-labelledby": "drift" }, h("h2", { id: "drift" }, `Drifted: ${data.reason}`),
    data.changes.length
      ? table("What changed", ["Field", "Node has", "NodePool has"], data.changes.map((each) => [each.field, each.old, each.new]))
      : h("p", {}, data.message));
}

function draining(data, now) {
  return h("section", { class: `drain ${data.verdict}`, "aria-labelledby": "drain" },
    h("h2", { id: "drain" }, "Draining: ", data.verdict),
    h("p", {}, data.since && ["Since ", time(data.since, now), ". "], data.deadline && ["Every pod is gone by ", time(data.deadline, now), ". "], data.waitsFor && `Waits for ${data.waitsFor}.`),
    data.pods.length > 0 && table("Pods that are leaving", ["Pod", "Tier", "State", "Why", "Lasts"],
      data.pods.map((each) => [each.pod, each.tier, each.state, each.why, each.why ? lasting(each, now) : null])));
}

function repair(data, now) {
  return h("section", { class: "drain stuck", "aria-labelledby": "repair" }, h("h2", { id: "repair" }, "Unhealthy"),
    h("ul", {}, data.conditions.map((each) => h("li", {}, `${each.type} is ${each.status} since `, time(each.since, now), `, tolerated for ${each.toleration} (${each.saidBy}), until `, time(each.dueAt, now)))),
    h("p", {}, data.off ? `Not repaired: ${data.off}.` : data.blocked ? `Repair waits: ${data.unhealthy} of ${data.nodes} nodes are unhealthy, ${data.allowed} allowed.` : ["Repaired at ", time(data.dueAt, now), "."]));
}

function pods(list, now) {
  if (!list.length) return h("p", { class: "quiet" }, "No pods on this node.");
  return table("Pods on this node", ["Pod", "Phase", "CPU", "Memory", "Age", "Protected"], list.map((each) => [
    h("span", { class: "mono" }, each.pod), each.deleting ? "leaving" : each.daemon ? `${each.phase}, daemon` : each.phase, cores(each.cpu), bytes(each.memory),
    each.createdAt && age(each.createdAt, now), each.protected ? (each.protectedUntil ? ["until ", time(each.protectedUntil, now)] : "always") : ""]), { numeric: [2, 3, 4] });
}
