// A network on a canvas: nodes, links, the packets on them, and the queues in front of them.

/** One colour for each group, told apart by people who see few colours too (Okabe and Ito 2008). */
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];

export class Network {
  constructor(described) {
    this.described = described;
    const { nodes, links, traffic, trunks } = described;
    this.groups = [...new Set(traffic.map(({ group }) => group))];
    this.neighbours = nodes.map(() => []);
    for (const { ends: [one, other] } of links) {
      this.neighbours[one].push(other);
      this.neighbours[other].push(one);
    }
    this.gateways = new Set(trunks.flatMap(({ gateways }) => gateways));
    this.places = this.layout();
    // What a packet belongs to is told by the two hosts that it is between.
    this.groupOf = new Map();
    for (const { ends: [from, to], group } of traffic) {
      this.groupOf.set(`${from} ${to}`, group);
      this.groupOf.set(`${to} ${from}`, group);
    }
  }

  color(group) {
    return COLORS[this.groups.indexOf(group) % COLORS.length];
  }

  /** For each node a place from 0 to 1 in both directions: along by the distance from the first source, hosts outside of their neighbours. */
  layout() {
    const { nodes, traffic } = this.described;
    const distance = nodes.map(() => Infinity);
    const next = [traffic[0]?.ends[0] ?? 0];
    distance[next[0]] = 0;
    for (const node of next) {
      for (const neighbour of this.neighbours[node]) {
        if (distance[neighbour] === Infinity) {
          distance[neighbour] = distance[node] + 1;
          next.push(neighbour);
        }
      }
    }
    const far = Math.max(...distance.filter(Number.isFinite), 1);
    nodes.forEach((_, node) => {
      const [neighbour, another] = this.neighbours[node];
      if (another === undefined && neighbour !== undefined) distance[node] = distance[neighbour] < far / 2 ? Math.max(distance[neighbour] - 1, 0) : distance[neighbour] + 1;
    });
    const most = Math.max(...distance.filter(Number.isFinite), 1);
    const columns = new Map();
    nodes.forEach((_, node) => {
      const column = columns.get(distance[node]) ?? [];
      column.push(node);
      columns.set(distance[node], column);
    });
    const places = [];
    for (const [along, column] of columns) {
      column.forEach((node, row) => {
        places[node] = { x: Number.isFinite(along) ? along / most : 0, y: (row + 0.5) / column.length };
      });
    }
    return places;
  }

  draw(canvas, simulation, values) {
    const { clientWidth: width, clientHeight: height } = canvas;
    const scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const style = getComputedStyle(document.documentElement);
    const paint = (name) => style.getPropertyValue(name).trim();
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `${width < 500 ? 11 : 13}px system-ui, sans-serif`;
    const margin = { x: width < 500 ? 38 : 60, y: 26 };
    const place = (node) => {
      const { x, y } = this.places[node];
      return { x: margin.x + x * (width - 2 * margin.x), y: margin.y + y * (height - 2 * margin.y) };
    };
    const { nodes, links } = this.described;
    for (const { name, ends } of links) {
      const [one, other] = ends.map(place);
      context.strokeStyle = paint("--line");
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(one.x, one.y);
      context.lineTo(other.x, other.y);
      context.stroke();
      this.packets(context, simulation, [name, one, other], paint("--lane"));
      this.queue(context, [values[`${name}.queue.packets`], values[`${name}.drops`], one, other], paint);
      this.queue(context, [values[`${name}.back.queue.packets`], values[`${name}.back.drops`], other, one], paint);
    }
    nodes.forEach(({ name, kind }, node) => {
      const { x, y } = place(node);
      const group = this.described.traffic.find(({ ends }) => ends.includes(node) && kind === "host" && this.described.traffic.filter(({ ends: all }) => all.includes(node)).length === 1)?.group;
      context.fillStyle = group ? this.color(group) : paint("--text");
      context.beginPath();
      if (kind === "host") context.arc(x, y, 6, 0, 2 * Math.PI);
      else if (this.gateways.has(node)) context.rect(x - 9, y - 12, 18, 24);
      else context.rect(x - 7, y - 7, 14, 14);
      context.fill();
      context.fillStyle = paint("--text");
      context.textAlign = "center";
      context.fillText(name, x, y - 16);
    });
    this.edges(context, values, place, paint);
  }

  /** The packets on both ways of a link; those of a trunk's lanes are in a colour of their own. */
  packets(context, simulation, [name, one, other], lane) {
    const length = Math.hypot(other.x - one.x, other.y - one.y) || 1;
    const aside = { x: (-(other.y - one.y) / length) * 4, y: ((other.x - one.x) / length) * 4 };
    for (const [way, from, to, side] of [[name, one, other, -1], [`${name}.back`, other, one, 1]]) {
      const packets = simulation.packets(way);
      for (let packet = 0; packet < packets.length; packet += 3) {
        const part = Math.max(packets[packet], 0);
        const group = this.groupOf.get(`${packets[packet + 1]} ${packets[packet + 2]}`);
        context.fillStyle = group ? this.color(group) : lane;
        context.fillRect(from.x + (to.x - from.x) * part + side * aside.x - 2, from.y + (to.y - from.y) * part + side * aside.y - 2, 4, 4);
      }
    }
  }

  /** What waits in front of one way of a link, as a bar that grows with it. */
  queue(context, [packets, drops, from, to], paint) {
    if (!(packets > 0 || drops > 0)) return;
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const x = from.x + ((to.x - from.x) / length) * 20, y = from.y + ((to.y - from.y) / length) * 20;
    const tall = Math.min(4 * Math.sqrt(packets), 70);
    context.fillStyle = paint("--queue");
    context.fillRect(x - 5, y + 16, 10, tall);
    context.fillStyle = paint("--text");
    context.textAlign = "center";
    context.fillText(String(Math.round(packets)), x, y + 30 + tall);
    if (drops > 0) this.drops(context, drops, x, y + 44 + tall, paint);
  }

  /** Packets that were dropped in the last interval. */
  drops(context, count, x, y, paint) {
    context.fillStyle = paint("--queue");
    context.fillText(`✕ ${Math.round(count)}`, x, y);
  }

  /** What waits at the edges of trunks, a bar for each class. */
  edges(context, values, place, paint) {
    for (const { name, gateways, classes } of this.described.trunks) {
      for (const [way, gateway] of [[name, gateways[0]], [`${name}.back`, gateways[1]]]) {
        const { x, y } = place(gateway);
        classes.forEach((each, row) => {
          const packets = values[`${way}.${each}.queue.packets`] || 0;
          const left = x - 8 * classes.length + 16 * row;
          const tall = Math.min(4 * Math.sqrt(packets), 70);
          context.fillStyle = paint("--accent");
          context.fillRect(left + 2, y + 18, 12, Math.max(tall, 1));
          const drops = values[`${way}.${each}.drops`] || 0;
          if (drops > 0) this.drops(context, drops, left + 8, y + 46 + tall, paint);
          if (packets > 0) {
            context.fillStyle = paint("--text");
            context.textAlign = "center";
            context.fillText(String(packets), left + 8, y + 32 + tall);
          }
        });
      }
    }
  }
}
