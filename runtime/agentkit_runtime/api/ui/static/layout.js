// Where each node of the tree is drawn. Pure: documents in, places out.

/** A node, placed: `row` and `rows` are lanes from the top, `level` counts from its root. */
class Placed {
  constructor(node, key, parent) {
    Object.assign(this, { node, key, parent, children: [], row: 0, rows: 1, level: parent ? parent.level + 1 : 0 });
    this.end = node.start + node.tokens;
  }

  get isRoot() {
    return this.parent === null;
  }

  /** Children that the server left out, because others were used later. */
  get left() {
    return this.node.children - this.children.length;
  }

  /** What to call it: a session that ended here, else tags. */
  get name() {
    return this.node.sessions[0] ?? (this.node.tags.length ? this.node.tags.join(", ") : "");
  }
}

/**
 * Lay a tree out: parents left of their children, x in tokens from the prompt's beginning, one lane
 * for each leaf, and one for each root above its branches.
 *
 * @param nodes of `GET /admin/v1/tree`: parents before children, hot ones first.
 * @param byName whether siblings are ordered by name, and so keep their places.
 * @returns `{ placed, rows, end }`: all nodes top down, the number of lanes, the longest prompt.
 */
export function layout(nodes, byName) {
  const all = placedOf(nodes);
  const roots = all.filter((one) => one.isRoot);
  if (byName) sortByName(all, roots);
  let row = 0;
  const order = [];
  for (const root of roots) {
    root.row = row;
    order.push(root);
    row += 1;
    for (const child of root.children) row = place(child, row, order);
  }
  const end = all.reduce((longest, one) => Math.max(longest, one.end), 1);
  return { placed: order, rows: row, end };
}

function placedOf(nodes) {
  const all = [];
  nodes.forEach((node, i) => {
    const parent = node.parent === null ? null : all[node.parent];
    const key = parent === null ? `root/${node.tenant}/${i}` : `${rootOf(parent).key}/${node.id}/${node.start + node.tokens}`;
    const one = new Placed(node, key, parent);
    parent?.children.push(one);
    all.push(one);
  });
  return all;
}

export function rootOf(placed) {
  let root = placed;
  while (root.parent !== null) root = root.parent;
  return root;
}

const compare = new Intl.Collator("en", { numeric: true }).compare;

/** By the least name below each, which children that come and go seldom change. */
function sortByName(all, roots) {
  const least = new Map();
  for (const one of [...all].reverse()) {
    const names = [one.name || "￿", ...one.children.map((child) => least.get(child))];
    least.set(one, names.sort(compare)[0]);
  }
  const order = (a, b) => compare(least.get(a), least.get(b)) || a.node.id - b.node.id;
  for (const one of all) one.children.sort(order);
  roots.sort((a, b) => compare(a.node.tenant, b.node.tenant) || order(a, b));
}

/** Give `top` and all below it their lanes from `row` on; returns the first free one. */
function place(top, row, order) {
  // With a stack of our own: a long conversation is as deep as it has turns.
  const stack = [{ one: top, next: 0 }];
  top.row = row;
  order.push(top);
  while (stack.length) {
    const frame = stack.at(-1);
    const { one } = frame;
    if (frame.next < one.children.length) {
      const child = one.children[frame.next++];
      child.row = row;
      order.push(child);
      stack.push({ one: child, next: 0 });
      continue;
    }
    if (!one.children.length) row += 1;
    one.rows = Math.max(1, row - one.row);
    stack.pop();
  }
  return row;
}
