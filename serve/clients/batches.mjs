// Files and batches.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { check, clients, rejects } from './harness.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ingot-clients-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));

function row(id, body) {
  return JSON.stringify({
    custom_id: id, method: 'POST', url: '/v1/chat/completions',
    body: { model: 'tiny', messages: [{ role: 'user', content: 'Tell a story.' }], max_tokens: 4, ...body },
  }) + '\n';
}

const ended = ['completed', 'failed', 'expired', 'cancelled'];
const states = [...ended, 'validating', 'in_progress', 'finalizing', 'cancelling'];

for (const { version, openai, module } of clients) {
  const named = (name) => `openai ${version}: ${name}`;
  const { toFile, BadRequestError, NotFoundError, APIError } = module;

  const upload = async (text, more) => openai.files.create({ file: await toFile(Buffer.from(text), 'rows.jsonl'), purpose: 'batch', ...more });
  const create = (input, more) => openai.batches.create({
    input_file_id: input, endpoint: '/v1/chat/completions', completion_window: '24h', ...more,
  });
  // until polls a batch, as users do: there is no helper in the client.
  const until = async (id, done) => {
    for (let last = 0; ; await new Promise((next) => setTimeout(next, 10))) {
      const b = await openai.batches.retrieve(id);
      assert(states.includes(b.status), b.status);
      const n = b.request_counts.completed + b.request_counts.failed;
      assert(n >= last, 'counts do not go back');
      last = n;
      if (done(b)) return b;
    }
  };
  const finish = (id) => until(id, (b) => ended.includes(b.status));
  // lines returns the lines of a file by custom_id.
  const lines = async (id) => {
    const text = await (await openai.files.content(id)).text();
    const all = text.trimEnd().split('\n').map((l) => JSON.parse(l));
    const byID = Object.fromEntries(all.map((l) => [l.custom_id, l]));
    assert.equal(Object.keys(byID).length, all.length);
    return byID;
  };

  const good = row('a') + row('b', { temperature: 0 }) + row('c', { temperature: 9 });
  let input, batch;

  await check(named('a stream is uploaded without a length'), async () => {
    fs.writeFileSync(path.join(folder, 'in.jsonl'), good);
    input = await openai.files.create({ file: fs.createReadStream(path.join(folder, 'in.jsonl')), purpose: 'batch' });
    assert.equal(input.object, 'file');
    assert.equal(input.bytes, good.length);
    assert.equal(input.filename, 'in.jsonl');
    assert.equal(input.purpose, 'batch');
    assert.equal(input.status, 'processed');
    assert(Math.abs(input.created_at - Date.now() / 1000) < 600);
  });
  await check(named('a buffer is uploaded, with an expiry'), async () => {
    const f = await upload(good, { expires_after: { anchor: 'created_at', seconds: 7200 } });
    assert.equal(f.expires_at, f.created_at + 7200);
  });
  await check(named('a file is retrieved'), async () => assert.deepEqual(await openai.files.retrieve(input.id), input));
  await check(named('waitForProcessing returns at once'), async () => {
    assert.equal((await openai.files.waitForProcessing(input.id, { pollInterval: 60_000, maxWait: 30_000 })).status, 'processed');
  });
  await check(named('content is downloaded'), async () => {
    assert.equal(await (await openai.files.content(input.id)).text(), good);
  });
  await check(named('files are listed page by page'), async () => {
    const ids = [];
    for await (const f of openai.files.list({ limit: 1, order: 'asc' })) ids.push(f.id);
    assert(ids.includes(input.id));
    assert.equal(new Set(ids).size, ids.length);
    const newest = [];
    for await (const f of openai.files.list({ limit: 2 })) newest.push(f.id);
    assert.deepEqual(newest.reverse(), ids);
    assert.deepEqual((await openai.files.list({ purpose: 'evals' })).data, []);
  });

  await check(named('a batch is created'), async () => {
    batch = await create(input.id, { metadata: { night: '1' } });
    assert.equal(batch.object, 'batch');
    assert.equal(batch.status, 'validating');
    assert.equal(batch.endpoint, '/v1/chat/completions');
    assert.equal(batch.expires_at, batch.created_at + 86400);
    assert.deepEqual(batch.metadata, { night: '1' });
    assert.equal(batch.output_file_id, null);
    assert.equal(batch.errors, null);
  });
  await check(named('a batch is polled until it is completed'), async () => {
    batch = await finish(batch.id);
    assert.equal(batch.status, 'completed');
    assert.deepEqual(batch.request_counts, { total: 3, completed: 2, failed: 1 });
    assert(batch.created_at <= batch.in_progress_at && batch.in_progress_at <= batch.finalizing_at && batch.finalizing_at <= batch.completed_at);
    assert.equal(batch.cancelled_at, null);
    assert(batch.usage.output_tokens > 0);
    assert.equal(batch.usage.input_tokens + batch.usage.output_tokens, batch.usage.total_tokens);
  });
  await check(named('answers are in the output file'), async () => {
    const all = await lines(batch.output_file_id);
    assert.deepEqual(Object.keys(all).sort(), ['a', 'b']);
    let tokens = 0;
    for (const l of Object.values(all)) {
      assert.equal(l.error, null);
      assert.equal(l.response.status_code, 200);
      assert(l.response.request_id);
      assert.equal(l.response.body.object, 'chat.completion');
      assert.equal(l.response.body.choices[0].message.role, 'assistant');
      tokens += l.response.body.usage.total_tokens;
    }
    assert.equal(tokens, batch.usage.total_tokens);
    assert.equal((await openai.files.retrieve(batch.output_file_id)).purpose, 'batch_output');
  });
  await check(named('a request that is refused is in the error file'), async () => {
    const all = await lines(batch.error_file_id);
    assert.deepEqual(Object.keys(all), ['c']);
    assert.equal(all.c.error, null);
    assert.equal(all.c.response.status_code, 400);
    const { error } = all.c.response.body;
    assert.equal(error.type, 'invalid_request_error');
    assert.equal(error.param, 'temperature');
    assert.match(error.message, /line 3/);
  });
  await check(named('a batch whose requests all fail is completed'), async () => {
    const b = await finish((await create((await upload(row('x', { n: 0 }) + row('y', { colour: 'red' }))).id)).id);
    assert.equal(b.status, 'completed');
    assert.equal(b.output_file_id, null);
    assert.deepEqual(b.request_counts, { total: 2, completed: 0, failed: 2 });
    const all = await lines(b.error_file_id);
    assert.equal(all.y.response.body.error.param, 'colour');
  });
  await check(named('a batch with faults fails, and names lines and keys'), async () => {
    const b = await finish((await create((await upload(row('x') + row('x') + '{"custom_id":"z"}\n[]\n')).id)).id);
    assert.equal(b.status, 'failed');
    assert(b.failed_at >= b.created_at);
    assert.equal(b.output_file_id, null);
    assert.equal(b.error_file_id, null);
    assert.deepEqual(b.errors.data.map((e) => [e.line, e.code, e.param]), [
      [2, 'duplicate_custom_id', 'custom_id'], [3, 'missing_required_parameter', 'method'], [4, 'invalid_json_line', null],
    ]);
  });
  await check(named('a batch is cancelled'), async () => {
    let text = row('first', { max_tokens: 1 });
    for (let i = 0; i < 300; i++) text += row(`long-${i}`, { max_tokens: 800, ignore_eos: true });
    const f = await upload(text);
    const made = await create(f.id);
    await until(made.id, (b) => b.request_counts.completed > 0);
    const busy = await rejects(openai.files.delete(f.id));
    assert(busy instanceof BadRequestError);
    const asked = await openai.batches.cancel(made.id);
    assert(['cancelling', 'cancelled'].includes(asked.status));
    const b = await finish(made.id);
    assert.equal(b.status, 'cancelled');
    assert(b.cancelling_at <= b.cancelled_at);
    assert(b.request_counts.completed > 0, 'finished rows are kept');
    assert.equal(b.request_counts.completed + b.request_counts.failed, 301);
    assert.equal(Object.keys(await lines(b.output_file_id)).length, b.request_counts.completed);
    const rest = await lines(b.error_file_id);
    assert.equal(Object.keys(rest).length, b.request_counts.failed);
    assert.equal(rest['long-299'].response, null);
    assert.equal(rest['long-299'].error.code, 'batch_cancelled');
    assert.equal((await openai.batches.cancel(made.id)).status, 'cancelled', 'once more changes nothing');
  });
  await check(named('batches are listed page by page'), async () => {
    const ids = [];
    for await (const b of openai.batches.list({ limit: 2 })) ids.push(b.id);
    assert(ids.includes(batch.id));
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids.length, (await openai.batches.list({ limit: 100 })).data.length);
  });

  await check(named('what is not possible is refused once, with the parameter'), async () => {
    for (const [request, kind, status, param] of [
      [() => openai.batches.cancel(batch.id), BadRequestError, 400, 'batch_id'],
      [() => create('file-none'), BadRequestError, 400, 'input_file_id'],
      [() => create(input.id, { endpoint: '/v1/embeddings' }), BadRequestError, 400, 'endpoint'],
      [() => create(input.id, { completion_window: 'soon' }), BadRequestError, 400, 'completion_window'],
      [() => create(input.id, { metadata: { a: 1 } }), BadRequestError, 400, 'metadata'],
      [() => create(input.id, { window: '24h' }), BadRequestError, 400, 'window'],
      [() => openai.batches.retrieve('batch_none'), NotFoundError, 404, 'batch_id'],
      [() => openai.files.retrieve('file-none'), NotFoundError, 404, 'file_id'],
      [() => openai.files.content('file-none'), NotFoundError, 404, 'file_id'],
      [() => upload(good, { purpose: 'fun' }), BadRequestError, 400, 'purpose'],
      [() => upload('hello\n'), BadRequestError, 400, 'file'],
      [() => upload('x'.repeat(200_000)), APIError, 413, 'file'],
    ]) {
      const err = await rejects(request());
      assert(err instanceof kind, err);
      assert.equal(err.status, status);
      assert.equal(err.param, param);
      assert.equal(err.type, 'invalid_request_error');
      assert(err.code && err.message && err.requestID);
    }
  });
  await check(named('files are deleted'), async () => {
    assert.deepEqual(await openai.files.delete(input.id), { id: input.id, object: 'file', deleted: true });
    assert((await rejects(openai.files.retrieve(input.id))) instanceof NotFoundError);
    await openai.files.delete(batch.output_file_id);
    assert.equal((await openai.batches.retrieve(batch.id)).status, 'completed');
  });
}
