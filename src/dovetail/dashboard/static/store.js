// The state of the cluster: loaded once, then updated from the event stream, which reconnects when it is lost.

export class Store extends EventTarget {
  constructor() {
    super();
    this.nodes = new Map();
    this.summary = null;
    this.missing = [];
    this.mark = "";
    this.connected = false;
    this.problem = ""; // why the connection is lost, where that is known
    this.loaded = false;
    this.lastMessageAt = 0;
  }

  async start() {
    await this.reload();
    this.listen();
    setInterval(() => this.checkConnection(), 5000);
  }

  async reload() {
    for (let wait = 500; ; wait = Math.min(8000, wait * 2)) {
      try {
        const whole = await ask("api/cluster");
        this.nodes = new Map(whole.nodes.map((each) => [each.name, each]));
        this.take(whole);
        this.loaded = true;
        this.say("whole");
        return;
      } catch (error) {
        if (error.status === 401 || error.status === 403) return location.reload();
        this.setConnected(false, error.message);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  take({ mark, summary, missing }) {
    this.mark = mark;
    this.summary = Object.keys(summary).length ? summary : null;
    this.missing = missing;
  }

  listen() {
    this.stream?.close();
    const stream = new EventSource(`api/events?since=${encodeURIComponent(this.mark)}`);
    this.stream = stream;
    this.lastMessageAt = Date.now();
    stream.onopen = () => this.onMessage();
    stream.onerror = () => {
      this.setConnected(false, "The server does not answer.");
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => stream === this.stream && this.restart(), 2000);
    };
    stream.addEventListener("heartbeat", () => this.onMessage());
    stream.addEventListener("reset", () => { this.onMessage(); this.restart(); });
    stream.addEventListener("frame", (event) => { this.onMessage(); this.apply(JSON.parse(event.data)); });
  }

  async restart() {
    this.stream?.close();
    await this.reload();
    this.listen();
  }

  apply(frame) {
    performance.mark("dovetail:frame");
    for (const each of frame.nodes) this.nodes.set(each.name, each);
    for (const name of frame.gone) this.nodes.delete(name);
    this.take(frame);
    this.changed = new Set([...frame.nodes.map((each) => each.name), ...frame.gone]);
    this.say("frame");
  }

  onMessage() {
    this.lastMessageAt = Date.now();
    this.setConnected(true);
  }

  checkConnection() {
    if (this.stream && Date.now() - this.lastMessageAt > 30000) this.restart();
  }

  setConnected(connected, problem = "") {
    if (this.connected === connected && this.problem === problem) return;
    this.connected = connected;
    this.problem = problem;
    if (!connected) this.lostAt ??= Date.now();
    else this.lostAt = null;
    this.say("link");
  }

  say(what) {
    this.dispatchEvent(new Event(what));
  }
}

export async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" }).catch(() => {
    throw new Error("The server does not answer.");
  });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(data.error ?? `The page answered ${answer.status}.`), { status: answer.status });
  return data;
}
