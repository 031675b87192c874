// The `ws` library from npm as a client. Every wait has a limit that only turns a hang into a
// failure.

'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const WebSocket = require('ws');

const PATIENCE_MS = 60_000;

/** Runs `use` with a server of its own, whose process is killed afterwards. */
async function withServer(config, use) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'terret-'));
  const file = path.join(folder, 'config.json');
  const base = { listen: '127.0.0.1:0', tokens: { s1: 'secret' } };
  fs.writeFileSync(file, JSON.stringify({ ...base, ...config }));
  const log = path.join(folder, 'log');
  const child = spawn(process.env.TERRET_WS, ['serve', '--config', file], {
    stdio: ['ignore', 'pipe', fs.openSync(log, 'w')],
  });
  const exited = once(child, 'exit');
  try {
    const lines = readline.createInterface(child.stdout);
    const [line] = await Promise.race([
      once(lines, 'line'),
      exited.then(([code]) => [`exited with ${code}`]),
    ]);
    assert.match(line, /^listening on /);
    await use({ address: line.slice('listening on '.length), child, exited });
  } catch (error) {
    console.error(fs.readFileSync(log, 'utf8'));
    throw error;
  } finally {
    child.kill('SIGKILL');
    await exited;
    fs.rmSync(folder, { recursive: true });
  }
}

/** A connection whose frames are taken one after the other. */
class Client {
  constructor(server, token = 'secret') {
    this.received = [];
    this.waiting = [];
    this.ws = new WebSocket(`ws://${server.address}/agents/s1/ws`, {
      headers: { Authorization: `Bearer ${token}` },
    });
    this.opened = once(this.ws, 'open');
    this.ws.on('message', (data, isBinary) => {
      assert.equal(isBinary, false, 'the server sends text frames only');
      this.push({ frame: JSON.parse(data.toString()) });
    });
    this.ws.on('close', (code) => this.push({ code }));
    this.ws.on('error', (error) => this.push({ error }));
  }

  push(item) {
    const waiting = this.waiting.shift();
    if (waiting) waiting(item);
    else this.received.push(item);
  }

  async next() {
    if (this.received.length > 0) return this.received.shift();
    let timer;
    const hang = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('nothing came')), PATIENCE_MS);
    });
    const item = new Promise((resolve) => this.waiting.push(resolve));
    try {
      return await Promise.race([item, hang]);
    } finally {
      clearTimeout(timer);
    }
  }

  async frame() {
    const item = await this.next();
    assert.ok(item.frame, `expected a frame, not ${JSON.stringify(item)}`);
    return item.frame;
  }

  async closeCode() {
    const item = await this.next();
    assert.ok(item.code, `expected the close, not ${JSON.stringify(item)}`);
    return item.code;
  }

  async hello() {
    const frame = await this.frame();
    const { last_seq } = frame;
    assert.deepEqual(frame, { type: 'hello', proto: 1, session_id: 's1', last_seq });
    return last_seq;
  }

  async until(kind) {
    const events = [];
    do {
      const event = await this.frame();
      assert.ok('seq' in event, JSON.stringify(event));
      events.push(event);
    } while (events.at(-1).type !== kind);
    return events;
  }

  async error() {
    const frame = await this.frame();
    assert.equal(frame.type, 'error', JSON.stringify(frame));
    return frame.code;
  }

  send(frame) {
    this.ws.send(JSON.stringify(frame));
  }

  cut() {
    this.ws.terminate();
  }
}

async function connected(server) {
  const client = new Client(server);
  const lastSeq = await client.hello();
  return { client, lastSeq };
}

const checks = {
  'a whole turn': () =>
    withServer({}, async (server) => {
      const { client, lastSeq } = await connected(server);
      assert.equal(lastSeq, 0);
      assert.equal(client.ws.extensions, '', 'no extension is negotiated');
      client.send({ type: 'subscribe', from_seq: 0 });
      client.send({ type: 'inject', text: 'one two three', wake: true });
      const events = await client.until('turn/end');
      const kinds = events.map((event) => event.type);
      assert.deepEqual(kinds.slice(0, 4), [
        'session/created', 'turn/start', 'step/start', 'user/message',
      ]);
      assert.deepEqual(kinds.slice(-3), ['assistant/message', 'step/end', 'turn/end']);
      events.forEach((event, index) => assert.equal(event.seq, index));
      client.cut();
    }),

  'dropping in the middle of a stream': () => {
    const chunks = Array.from({ length: 60 }, (_, n) => `${n} `);
    const script = { kind: 'scripted', steps: [{ chunks, chunk_delay_ms: 5 }] };
    const config = { providers: { script }, roles: { main: 'script/m' } };
    return withServer(config, async (server) => {
      const seen = [];
      while (seen.at(-1)?.type !== 'turn/end') {
        const { client } = await connected(server);
        client.send({ type: 'subscribe', from_seq: seen.length });
        if (seen.length === 0) client.send({ type: 'inject', text: 'go', wake: true });
        for (let n = 0; n < 7 && seen.at(-1)?.type !== 'turn/end'; n += 1) {
          seen.push(await client.frame());
        }
        client.cut();
      }
      seen.forEach((event, index) => assert.equal(event.seq, index));
      const said = seen.filter((event) => event.type === 'assistant/chunk');
      assert.deepEqual(said.map((event) => event.payload.text), chunks);
    });
  },

  'close codes': () =>
    withServer({}, async (server) => {
      const intruder = new Client(server, 'wrong');
      assert.equal(await intruder.error(), 'unauthorized');
      assert.equal(await intruder.closeCode(), 4401);
      const { client: older } = await connected(server);
      const { client: newer } = await connected(server);
      assert.equal(await older.error(), 'superseded');
      assert.equal(await older.closeCode(), 4409);
      server.child.kill('SIGTERM');
      assert.equal(await newer.closeCode(), 1001);
      assert.deepEqual(await server.exited, [0, null]);
    }),

  'what is wrong is answered and the connection stays': () =>
    withServer({}, async (server) => {
      const { client } = await connected(server);
      for (const wrong of ['nonsense', '{}', Buffer.from('binary'), '{"type":"subscribe"}']) {
        client.ws.send(wrong);
        assert.equal(await client.error(), 'bad_frame', String(wrong));
      }
      client.send({ type: 'cancel' });
      assert.equal(await client.error(), 'not_running');
      client.cut();
    }),

  'fragments, pings and large messages': () =>
    withServer({}, async (server) => {
      const { client } = await connected(server);
      const pong = once(client.ws, 'pong');
      client.ws.ping('payload');
      const [payload] = await pong;
      assert.equal(payload.toString(), 'payload');
      client.ws.send('{"type":"sub', { fin: false });
      client.ws.send('scribe","from', { fin: false });
      client.ws.send('_seq":0}', { fin: true });
      assert.equal((await client.frame()).seq, 0);
      const frame = (text) => JSON.stringify({ type: 'inject', text });
      const exact = frame('x'.repeat((1 << 20) - frame('').length));
      client.ws.send(exact);
      client.ws.send(`${exact} `);
      assert.equal(await client.error(), 'bad_frame');
      client.send({ type: 'inject', text: 'now', wake: true });
      const events = await client.until('turn/end');
      const injected = events.filter((event) => event.type === 'context/injected');
      assert.deepEqual(injected.map((event) => frame(event.payload.text).length), [1 << 20]);
      client.cut();
    }),

  'a closing handshake': () =>
    withServer({}, async (server) => {
      const { client } = await connected(server);
      client.ws.close(4000, 'au revoir');
      assert.equal(await client.closeCode(), 4000);
    }),
};

// Node leaves with status 0 when nothing is left to wait for, a promise that hangs included.
process.exitCode = 1;
(async () => {
  for (const [name, check] of Object.entries(checks)) {
    console.log(`   ${name}`);
    await check();
  }
  process.exitCode = 0;
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
