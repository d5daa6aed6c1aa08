// Draws every dashboard from a running Prometheus. Fails where a query or a panel does, or has nothing to show without a reason.
import { spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = fileURLToPath(new URL('.', import.meta.url));
const [WIDTH, ROW, HEADING] = [1480, 34, 44];
const TYPES = { html: 'text/html', js: 'text/javascript', css: 'text/css' };
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };

const { values: options } = parseArgs({
  options: {
    prometheus: { type: 'string', default: 'http://127.0.0.1:9090' },
    dashboards: { type: 'string', default: join(here, '../dashboards') },
    out: { type: 'string', default: 'target/dashboards' },
    last: { type: 'string', default: '15m' },
    until: { type: 'string' },
    scrape: { type: 'string', default: '5' },
    set: { type: 'string', multiple: true, default: [] },
    only: { type: 'string', multiple: true, default: [] },
    report: { type: 'string' },
    'allow-empty': { type: 'boolean', default: false },
    chromium: { type: 'string', default: 'chromium' },
  },
});

function seconds(text) {
  const parts = /^(\d+)([smhd])$/.exec(text);
  if (!parts) throw new Error(`${text}: not a time such as 15m`);
  return Number(parts[1]) * SECONDS[parts[2]];
}

async function body(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function forward(request, response) {
  const sent = await body(request);
  const target = options.prometheus.replace(/\/$/, '') + request.url.slice('/prometheus'.length);
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const answer = await fetch(target, { method: 'POST', headers, body: sent });
  response.writeHead(answer.status, { 'content-type': 'application/json' });
  response.end(Buffer.from(await answer.arrayBuffer()));
}

// Serves the page, the task in hand and Prometheus on one address, and keeps the report.
function serve(state) {
  const server = createServer(async (request, response) => {
    try {
      if (request.url.startsWith('/prometheus/')) return await forward(request, response);
      if (request.url === '/task') return response.end(JSON.stringify(state.task));
      if (request.url === '/report') {
        state.result = JSON.parse(await body(request));
        return response.end();
      }
      const name = basename(request.url === '/' ? 'index.html' : request.url);
      const text = readFileSync(join(here, 'built', name));
      response.writeHead(200, { 'content-type': TYPES[name.split('.').pop()] ?? 'application/octet-stream' });
      response.end(text);
    } catch (error) {
      response.writeHead(502, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ status: 'error', errorType: 'render', error: String(error) }));
    }
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

function photograph(address, height, file) {
  const profile = mkdtempSync(join(tmpdir(), 'faultline-render-'));
  const flags = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--hide-scrollbars',
    '--no-first-run',
    '--disable-extensions',
    '--virtual-time-budget=60000',
    `--user-data-dir=${profile}`,
    `--window-size=${WIDTH},${height}`,
    `--screenshot=${file}`,
    address,
  ];
  return new Promise((resolve, reject) => {
    const browser = spawn(options.chromium, flags, { stdio: 'ignore' });
    browser.on('error', reject);
    browser.on('exit', resolve);
  }).finally(() => rmSync(profile, { recursive: true, force: true }));
}

// What is wrong with a dashboard, in words; `reasons` by panel, for the whole panel or one of its queries.
function judge(name, { report, faults }, reasons) {
  const wrong = faults.map((fault) => `${name}: ${fault}`);
  for (const { panel, series, errors } of report) {
    wrong.push(...errors.map((error) => `${name}, ${panel}: ${error}`));
    for (const [letter, count] of Object.entries(series)) {
      const reason = reasons[panel] ?? reasons[`${panel} ${letter}`];
      const complains = !options['allow-empty'] && !reason;
      if (count === 0 && errors.length === 0 && complains) wrong.push(`${name}, ${panel}, query ${letter}: no series`);
    }
  }
  if (report.length === 0) wrong.push(`${name}: nothing was drawn`);
  return wrong;
}

async function main() {
  const to = options.until ? Number(options.until) : Math.floor(Date.now() / 1e3);
  const range = { from: to - seconds(options.last), to };
  const chosen = Object.fromEntries(options.set.map((pair) => pair.split(/=(.*)/s, 2)));
  const { always, sometimes } = JSON.parse(readFileSync(join(here, 'without-data.json')));
  mkdirSync(options.out, { recursive: true });
  const state = {};
  const server = await serve(state);
  const wrong = [];
  const reports = {};
  const files = readdirSync(options.dashboards).filter((file) => file.endsWith('.json'));
  const names = files.map((file) => basename(file, '.json'));
  wrong.push(...options.only.filter((name) => !names.includes(name)).map((name) => `there is no dashboard ${name}`));
  for (const name of names) {
    if (options.only.length > 0 && !options.only.includes(name)) continue;
    const dashboard = JSON.parse(readFileSync(join(options.dashboards, `${name}.json`)));
    const rows = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
    const layout = { width: WIDTH, column: (WIDTH - 8) / 24, row: ROW, heading: HEADING };
    state.task = { dashboard, range, layout, scrape: Number(options.scrape), chosen };
    state.result = { report: [], faults: [] };
    const picture = join(options.out, `${name}.png`);
    await photograph(`http://127.0.0.1:${server.address().port}/`, HEADING + rows * ROW + 8, picture);
    wrong.push(...judge(name, state.result, { ...always[name], ...sometimes[name] }));
    reports[name] = state.result.report;
    const drawn = state.result.report.length;
    console.log(`${picture}: ${drawn} panels, ${Math.round(statSync(picture).size / 1e3)} kB`);
  }
  server.close();
  if (options.report) writeFileSync(options.report, JSON.stringify(reports, null, 1));
  for (const line of wrong) console.error(line);
  return wrong.length === 0 ? 0 : 1;
}

process.exitCode = await main();
