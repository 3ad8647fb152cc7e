/* The status page. Asks for status.json again and again and changes only what has changed: a row of the table is made
 * once, and a cell is touched when its text is another. Texts of nodes are put in as text, never as HTML. */
'use strict';

const EVERY_MS = 1500;
const PATIENCE_MS = 10000; // for one answer
const MOST_LOGS = 64; // that can be asked for one by one
const KINDS = {
  absent: 'still', registered: 'busy', starting: 'busy', running: 'good', stopping: 'busy',
  finished: 'good', failed: 'bad', lost: 'bad', stopped: 'still',
};
const ENDED = new Set(['finished', 'failed', 'lost', 'stopped']);
const CAUSES = {
  refused_key: 'without the cluster key, or not with TLS',
  refused_version: 'of another version of tfos',
  refused_slow: 'too slow to say who they are',
  refused_other: 'that left, sent nonsense or were too many',
};

const element = (id) => document.getElementById(id);
const rows = new Map(); // index of a node → its row
let lastSeen = null;
let shownState = null; // a state, or null for all
let counts = new Map();

function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

function setClass(target, name) {
  if (target.className !== name) {
    target.className = name;
  }
}

function make(tag, className, parent) {
  const made = document.createElement(tag);
  if (className) {
    made.className = className;
  }
  parent.append(made);
  return made;
}

/* ---- numbers for people ---- */

function duration(seconds) {
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  const first = parts.findIndex((part) => part > 0);
  const at = first < 0 ? 3 : Math.min(first, 2);
  return first < 0 || first === 3 ? `${whole} s`
    : `${parts[at]} ${'dhm'[at]} ${parts[at + 1]} ${'hms'[at]}`;
}

function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

function count(number) {
  return number.toLocaleString('en-US').replaceAll(',', '\u202f');
}

/* Colours and the like that programs print for terminals. */
function plain(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '').replace(/\r\n/g, '\n');
}

/* ---- nodes ---- */

function toggleLog(row) {
  row.open = !row.open;
  row.logButton.setAttribute('aria-expanded', String(row.open));
  setText(row.logButton, row.open ? 'Hide' : 'Show');
  if (row.open && row.logLine === null) {
    row.logLine = document.createElement('tr');
    row.logLine.className = 'log';
    row.logLine.setAttribute('role', 'row');
    const cell = make('td', '', row.logLine);
    cell.setAttribute('role', 'cell');
    cell.colSpan = 12;
    row.log = make('pre', '', cell);
    row.log.tabIndex = 0;
    row.log.setAttribute('aria-label', `End of the log of ${row.name}`);
    row.log.textContent = '…';
    row.line.after(row.logLine);
  }
  row.logLine.hidden = !row.open;
  if (row.open) {
    refresh.now();
  }
}

function makeRow(node) {
  const row = { open: false, logLine: null, log: null, state: null, name: node.node };
  row.line = document.createElement('tr');
  row.line.setAttribute('role', 'row');
  row.nameCell = make('th', '', row.line);
  row.nameCell.setAttribute('role', 'rowheader');
  row.nameCell.scope = 'row';
  const cell = (label, className) => {
    const made = make('td', className, row.line);
    made.dataset.label = label;
    made.setAttribute('role', 'cell');
    return made;
  };
  const stateCell = cell('State');
  const stateBox = make('div', '', stateCell);
  row.badge = make('span', 'badge', stateBox);
  row.ended = make('span', 'note', stateBox);
  row.host = cell('Host');
  row.executor = cell('Executor');
  row.uptime = cell('Uptime', 'number');
  row.cpu = cell('CPU', 'number');
  row.memory = cell('Memory', 'number');
  row.gpus = cell('GPUs');
  row.fed = cell('Rows', 'number fed');
  row.rate = cell('Rows/s', 'number fed');
  row.heard = cell('Last heard', 'number');
  row.logButton = make('button', '', cell('Log'));
  row.logButton.type = 'button';
  row.logButton.textContent = 'Show';
  row.logButton.setAttribute('aria-expanded', 'false');
  row.logButton.addEventListener('click', () => toggleLog(row));
  return row;
}

function showLog(row, text) {
  if (row.open && text !== undefined && row.logText !== text) {
    const box = row.log;
    // Follow the end, unless the reader has scrolled up to look at something.
    const follows = row.logText === undefined || box.scrollHeight - box.scrollTop - box.clientHeight < 8;
    row.logText = text;
    box.textContent = text === '' ? 'Nothing yet.' : plain(text);
    if (follows) {
      box.scrollTop = box.scrollHeight;
    }
  }
}

/* What an ended node said of its end: the last line, which is the message of a traceback; the whole as a tooltip. */
function showEnd(row, node) {
  const text = ENDED.has(node.state) && node.state !== 'finished' ? node.ended : '';
  if (row.endText !== text) {
    row.endText = text;
    setText(row.ended, text.trim().split('\n').pop().trim());
    row.ended.title = text;
  }
}

function showNode(row, node) {
  const here = node.state !== 'absent';
  const alive = here && !ENDED.has(node.state);
  row.name = node.node;
  setText(row.nameCell, node.node);
  setText(row.badge, node.state);
  setClass(row.badge, `badge ${KINDS[node.state] || 'still'}`);
  showEnd(row, node);
  setText(row.host, node.host || '–');
  setText(row.executor, node.executor || '–');
  setText(row.uptime, here ? duration(node.uptime_s) : '–');
  setText(row.cpu, alive ? `${Math.round(node.cpu_share * 100)} %` : '–');
  setText(row.memory, alive ? size(node.rss_bytes) : '–');
  setText(row.gpus, node.gpus || '–');
  setText(row.fed, node.feed ? `${count(node.feed.consumed_rows)} of ${count(node.feed.fed_rows)}` : '–');
  setText(row.rate, node.feed && alive ? count(Math.round(node.feed.rows_per_s)) : '–');
  setText(row.heard, alive ? `${node.heard_s.toFixed(1)} s` : '–');
  row.logButton.setAttribute('aria-label', `Log of ${node.node}`);
  showLog(row, node.log);
}

/* Says aloud what has changed, for those who cannot see it; many changes at once are only counted. */
function announce(changes) {
  if (changes.length > 0) {
    setText(element('changes'), changes.length <= 4 ? changes.join('. ')
      : `${changes.length} nodes have changed: ${[...counts].map(([state, count]) => `${count} ${state}`).join(', ')}`);
  }
}

function showFilters() {
  const box = element('filters');
  const wanted = [...counts.keys()];
  if (wanted.length < 2) {
    shownState = null;
  } else if (shownState !== null && !counts.has(shownState)) {
    shownState = null;
  }
  const names = wanted.length < 2 ? [] : [null, ...wanted];
  while (box.children.length > names.length) {
    box.lastChild.remove();
  }
  names.forEach((name, at) => {
    const button = box.children[at] || make('button', '', box);
    button.type = 'button';
    setText(button, name === null ? `all ${rows.size}` : `${counts.get(name)} ${name}`);
    button.setAttribute('aria-pressed', String(shownState === name));
    button.onclick = () => {
      shownState = name;
      showFilters();
      for (const row of rows.values()) {
        hideOrShow(row);
      }
    };
  });
}

function hideOrShow(row) {
  const hidden = shownState !== null && row.state !== shownState;
  if (row.line.hidden !== hidden) {
    row.line.hidden = hidden;
  }
  if (row.logLine !== null) {
    row.logLine.hidden = hidden || !row.open;
  }
}

function showNodes(nodes) {
  const body = element('nodes');
  const changes = [];
  const added = document.createDocumentFragment();
  counts = new Map();
  for (const node of nodes) {
    let row = rows.get(node.index);
    counts.set(node.state, (counts.get(node.state) || 0) + 1);
    if (row === undefined) {
      row = makeRow(node);
      rows.set(node.index, row);
      added.append(row.line);
    } else if (row.state !== node.state) {
      changes.push(`${node.node} is ${node.state}`);
    }
    row.state = node.state;
    showNode(row, node);
  }
  body.append(added);
  showFilters();
  for (const row of rows.values()) {
    hideOrShow(row);
  }
  announce(changes);
}

/* ---- the rest ---- */

function isWebAddress(text) {
  try {
    return ['http:', 'https:'].includes(new URL(text).protocol);
  } catch {
    return false;
  }
}

function showTensorBoard(nodes) {
  const box = element('tensorboard');
  const urls = nodes.filter((node) => node.tensorboard && !ENDED.has(node.state)).map((node) => node.tensorboard);
  const key = urls.join(' ');
  element('tensorboard-fact').hidden = urls.length === 0;
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    box.replaceChildren();
    for (const url of urls) {
      const link = make(isWebAddress(url) ? 'a' : 'span', '', box);
      link.textContent = url;
      if (link.tagName === 'A') {
        link.href = url;
        link.rel = 'noopener noreferrer';
        link.target = '_blank';
      }
      box.append(' ');
    }
  }
}

const FEED_STATES = { open: 'good', closed: 'still', ended: 'still', failed: 'bad' };

/* The newest first. */
function showFeeds(nodes, feeds) {
  const body = element('feeds');
  document.body.classList.toggle('unfed', !nodes.some((node) => node.feed));
  element('feeds-section').hidden = feeds.length === 0;
  while (body.children.length > feeds.length) {
    body.lastChild.remove();
  }
  [...feeds].reverse().forEach((feed, at) => {
    const line = body.children[at] || makeFeedLine(body);
    const texts = [`${feed.feed} · ${feed.kind}`, feed.queue, feed.state, feed.epoch + 1, feed.partitions,
      feed.complete, feed.feeding, feed.skipped, feed.fed_rows ?? '–', feed.consumed_rows ?? '–',
      feed.skipped_rows ?? '–'];
    texts.forEach((text, cell) => {
      const target = cell === 2 ? line.children[cell].firstChild : line.children[cell];
      setText(target, typeof text === 'number' ? count(text) : text);
    });
    setClass(line.children[2].firstChild, `badge ${FEED_STATES[feed.state] || 'still'}`);
  });
}

function makeFeedLine(body) {
  const labels = ['Feed', 'Queue', 'State', 'Epoch', 'Partitions', 'Complete', 'Feeding', 'Skipped', 'Rows fed',
    'Consumed', 'Skipped rows'];
  const line = makeLine(body, labels, 3);
  make('span', 'badge', line.children[2]);
  return line;
}

function makeLine(body, labels, numbers) {
  const line = make('tr', '', body);
  line.setAttribute('role', 'row');
  labels.forEach((label, at) => {
    const cell = make(at === 0 ? 'th' : 'td', at >= numbers ? 'number' : '', line);
    cell.setAttribute('role', at === 0 ? 'rowheader' : 'cell');
    cell.dataset.label = label;
  });
  return line;
}

/* Those that somebody feeds now; the status has only the first of each feed. */
function showPartitions(feeds) {
  const body = element('partitions');
  const shown = feeds.flatMap((feed) => (feed.under_way || []).map((each) => [feed.feed, ...each]));
  element('partitions-section').hidden = shown.length === 0;
  while (body.children.length > shown.length) {
    body.lastChild.remove();
  }
  shown.forEach(([feed, partition, state, , fed, consumed, , attempts], at) => {
    const line = body.children[at] || makeLine(body, ['Partition', 'State', 'Fed', 'Consumed', 'Attempts'], 2);
    [`${partition} of feed ${feed}`, state, count(fed), count(consumed), count(attempts)]
      .forEach((text, cell) => setText(line.children[cell], text));
  });
}

function showRefused(connections) {
  const list = element('refused');
  const lines = Object.keys(CAUSES).filter((key) => connections[key] > 0)
    .map((key) => `${connections[key]} ${CAUSES[key]}`);
  element('refused-section').hidden = lines.length === 0;
  while (list.children.length > lines.length) {
    list.lastChild.remove();
  }
  lines.forEach((line, at) => setText(list.children[at] || make('li', '', list), line));
}

function show(status) {
  const failed = status.failure !== '';
  const kinds = { running: 'good', 'waiting for nodes': 'busy', stopping: 'busy', over: 'still' };
  document.title = `${failed ? 'failed' : status.phase} · tfos ${status.cluster}`;
  setText(element('cluster'), status.cluster);
  setText(element('phase'), failed ? `failed, ${status.phase}` : status.phase);
  setClass(element('phase'), `badge ${failed ? 'bad' : kinds[status.phase] || 'still'}`);
  setText(element('count'), `${status.registered} of ${status.nodes.length} registered`);
  setText(element('attempt'), String(status.attempt));
  setText(element('version'), status.version);
  element('failure-section').hidden = !failed;
  setText(element('failure'), plain(status.failure));
  showTensorBoard(status.nodes);
  showNodes(status.nodes);
  showCurves(status.nodes);
  showFeeds(status.nodes, status.feeds);
  showPartitions(status.feeds);
  showRefused(status.connections);
  element('gone').hidden = true;
  lastSeen = new Date(); // by the reader's clock, which need not agree with the coordinator's
  setText(element('updated'), `Updated at ${lastSeen.toLocaleTimeString()}`);
}

function showGone() {
  const text = lastSeen === null ? 'The coordinator does not answer.'
    : `The cluster is gone; last seen ${lastSeen.toLocaleString()}. What follows is how it was then.`;
  setText(element('gone'), text);
  element('gone').hidden = false;
  setText(element('phase'), 'gone');
  setClass(element('phase'), 'badge still');
  document.title = `gone · tfos ${element('cluster').textContent}`;
}

/* ---- asking ---- */

function address() {
  const open = [...rows].filter(([, row]) => row.open).map(([index]) => index);
  const wishes = [];
  if (open.length > 0) {
    wishes.push(`logs=${open.length <= MOST_LOGS ? open.join(',') : 'all'}`);
  }
  if (curvesOf !== null) {
    wishes.push(`curves=${curvesOf}`);
  }
  return wishes.length === 0 ? 'status.json' : `status.json?${wishes.join('&')}`;
}

const refresh = {
  timer: null,
  asking: false,
  again: false,

  async ask() {
    const answer = await fetch(address(), { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!answer.ok) {
      throw new Error(`status ${answer.status}`);
    }
    return answer.json();
  },

  /* At once; while an answer is waited for, right behind it. */
  async now() {
    clearTimeout(this.timer);
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    this.again = false;
    try {
      const status = await this.ask().catch(() => null);
      if (status === null) {
        showGone();
      } else {
        show(status);
      }
    } finally {
      this.asking = false;
      this.timer = setTimeout(() => this.now(), this.again ? 0 : EVERY_MS);
    }
  },
};

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) {
    refresh.now();
  }
});
refresh.now();
