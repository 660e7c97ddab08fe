// A chat as a tree of messages: every edit and retry is a branch, nothing is overwritten. Plain
// data, as it is stored.
//
// chat { id, title, created, used, settings, nodes: { id: node }, roots: [id], leaf: id | null }
// node { id, parent, role, children: [id], chosen: id | null, content, ... }
//   user: content; assistant: content, reasoning, tool_calls, meta, state; tool: content, call

let counter = 0;
export const newId = () => `${Date.now().toString(36)}-${(counter += 1).toString(36)}-` +
  Math.floor(Math.random() * 0x7fffffff).toString(36);

export function newChat(settings = {}) {
  const now = Date.now();
  return { id: newId(), title: '', created: now, used: now, settings, nodes: {}, roots: [],
    root: null };
}

// Adds a message below `parent` (null: as a beginning) and makes it the shown one.
export function addNode(chat, parent, node) {
  const added = { id: newId(), parent, children: [], chosen: null, ...node };
  chat.nodes[added.id] = added;
  if (parent === null) chat.roots.push(added.id);
  else chat.nodes[parent].children.push(added.id);
  choose(chat, added.id);
  chat.used = Date.now();
  return added;
}

// Makes a message the shown one among its siblings.
export function choose(chat, id) {
  const { parent } = chat.nodes[id];
  if (parent === null) chat.root = id;
  else chat.nodes[parent].chosen = id;
}

export const siblings = (chat, node) =>
  (node.parent === null ? chat.roots : chat.nodes[node.parent].children);

// The shown messages, first to last.
export function path(chat) {
  const nodes = [];
  for (let id = chat.root; id; id = chat.nodes[id].chosen) nodes.push(chat.nodes[id]);
  return nodes;
}

// The messages above and including `id`.
export function pathTo(chat, id) {
  const nodes = [];
  for (let at = id; at !== null; at = chat.nodes[at].parent) nodes.unshift(chat.nodes[at]);
  return nodes;
}

// Messages as the API takes them: what it said itself goes back exactly as it came.
export function toMessages(nodes, system) {
  const messages = system ? [{ role: 'system', content: system }] : [];
  for (const node of nodes) {
    if (node.role === 'user') {
      messages.push({ role: 'user', content: node.content });
    } else if (node.role === 'tool') {
      messages.push({ role: 'tool', tool_call_id: node.call, content: node.content });
    } else {
      const message = { role: 'assistant', content: node.content };
      if (node.reasoning) message.reasoning_content = node.reasoning;
      if (node.tool_calls?.length) {
        message.tool_calls = node.tool_calls;
        if (!node.content) message.content = null;
      }
      messages.push(message);
    }
  }
  return messages;
}

export const titleOf = (text) => {
  const line = text.trim().split('\n')[0];
  return line.length > 60 ? `${line.slice(0, 57)}…` : line;
};

export function toMarkdown(chat) {
  const names = { user: 'You', assistant: 'Assistant', tool: 'Tool' };
  const parts = [`# ${chat.title || 'Chat'}`];
  for (const node of path(chat)) {
    parts.push(`## ${names[node.role]}`);
    if (node.content) parts.push(node.content);
    for (const call of node.tool_calls ?? []) {
      parts.push(`\`${call.function.name}(${call.function.arguments})\``);
    }
  }
  return `${parts.join('\n\n')}\n`;
}
