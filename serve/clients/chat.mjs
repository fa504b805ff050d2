// Chats, completions and models.
import assert from 'node:assert/strict';
import { check, clients, rejects } from './harness.mjs';

const messages = [{ role: 'user', content: 'Tell a story.' }];
const chat = { model: 'tiny', messages, max_tokens: 12, ignore_eos: true, seed: 3, temperature: 1.3 };
const prompt = { model: 'tiny', prompt: 'Once upon a time', max_tokens: 12, seed: 3, temperature: 1.3 };

for (const { version, openai, module } of clients) {
  const named = (name) => `openai ${version}: ${name}`;
  const { BadRequestError, NotFoundError, APIUserAbortError } = module;
  let whole;

  await check(named('models are listed'), async () => {
    const all = [];
    for await (const m of openai.models.list()) all.push(m.id);
    assert.deepEqual(all, ['tiny']);
  });
  await check(named('a model is retrieved'), async () => {
    const m = await openai.models.retrieve('tiny');
    assert.equal(m.object, 'model');
    assert.equal(typeof m.created, 'number');
  });
  await check(named('an unknown model is not found'), async () => {
    const err = await rejects(openai.models.retrieve('org/name'));
    assert(err instanceof NotFoundError);
    assert.equal(err.code, 'model_not_found');
  });

  await check(named('a chat is answered'), async () => {
    whole = await openai.chat.completions.create(chat);
    assert.equal(whole.object, 'chat.completion');
    assert.match(whole.id, /^chatcmpl-/);
    assert.equal(whole.model, 'tiny');
    const [c] = whole.choices;
    assert.equal(c.message.role, 'assistant');
    assert.equal(c.message.refusal, null);
    assert.equal(c.logprobs, null);
    assert(['stop', 'length'].includes(c.finish_reason));
    assert.equal(whole.usage.prompt_tokens + whole.usage.completion_tokens, whole.usage.total_tokens);
  });
  await check(named('the request has an id'), async () => {
    const { response, request_id } = await openai.chat.completions.create(chat, { headers: { 'X-Request-Id': 'mine-7' } }).withResponse();
    assert.equal(request_id, 'mine-7');
    assert(Number(response.headers.get('x-ingot-ttft-ms')) >= 0);
  });
  await check(named('a seed repeats an answer'), async () => {
    assert.equal((await openai.chat.completions.create(chat)).choices[0].message.content, whole.choices[0].message.content);
  });
  await check(named('a chat is streamed'), async () => {
    let text = '', finish, role;
    for await (const chunk of await openai.chat.completions.create({ ...chat, stream: true })) {
      assert.equal(chunk.object, 'chat.completion.chunk');
      assert.equal(chunk.usage, undefined);
      role ??= chunk.choices[0].delta.role;
      text += chunk.choices[0].delta.content ?? '';
      finish = chunk.choices[0].finish_reason;
    }
    assert.equal(role, 'assistant');
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(finish, whole.choices[0].finish_reason);
  });
  await check(named('the stream helper puts a chat together'), async () => {
    const stream = openai.chat.completions.stream({ ...chat, n: 2, stream_options: { include_usage: true } });
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices.length, 2);
    assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
    assert.equal(final.usage.prompt_tokens, whole.usage.prompt_tokens);
    assert.equal((await stream.totalUsage()).total_tokens, final.usage.total_tokens);
  });
  await check(named('usage comes last, without choices'), async () => {
    const chunks = [];
    for await (const chunk of await openai.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert.deepEqual(last.usage, whole.usage);
    for (const c of chunks) assert.equal(c.usage, null);
  });
  await check(named('log-probabilities of a chat'), async () => {
    const { choices: [{ logprobs }] } = await openai.chat.completions.create({ ...chat, logprobs: true, top_logprobs: 3, temperature: 0 });
    assert.equal(logprobs.refusal, null);
    for (const t of logprobs.content) {
      assert(t.logprob <= 0);
      assert.equal(t.top_logprobs.length, 3);
      assert.equal(t.top_logprobs[0].token, t.token);
      assert.equal(Buffer.from(t.bytes).toString(), t.token);
    }
  });
  await check(named('a stop string is not in the answer'), async () => {
    const text = whole.choices[0].message.content;
    const stop = text.slice(4, 7);
    const cut = await openai.chat.completions.create({ ...chat, stop });
    assert.equal(cut.choices[0].message.content, text.slice(0, text.indexOf(stop)));
    assert.equal(cut.choices[0].finish_reason, 'stop');
    let streamed = '';
    for await (const chunk of await openai.chat.completions.create({ ...chat, stop: [stop], stream: true })) streamed += chunk.choices[0].delta.content ?? '';
    assert.equal(streamed, cut.choices[0].message.content);
  });
  await check(named('nulls are absent'), async () => {
    const nulls = Object.fromEntries(['frequency_penalty', 'logit_bias', 'logprobs', 'max_completion_tokens', 'n', 'presence_penalty', 'response_format',
      'service_tier', 'stop', 'stream', 'stream_options', 'top_logprobs', 'top_p', 'tools', 'tool_choice', 'user', 'metadata'].map((k) => [k, null]));
    assert.equal((await openai.chat.completions.create({ ...chat, ...nulls })).choices[0].message.content, whole.choices[0].message.content);
  });
  await check(named('a wrong value is refused, with its field'), async () => {
    const err = await rejects(openai.chat.completions.create({ ...chat, temperature: 7 }));
    assert(err instanceof BadRequestError);
    assert.equal(err.param, 'temperature');
    assert.equal(err.type, 'invalid_request_error');
    assert(err.requestID);
  });
  await check(named('an unknown field is refused, also of a stream'), async () => {
    const err = await rejects(openai.chat.completions.create({ ...chat, colour: 'red', stream: true }));
    assert(err instanceof BadRequestError);
    assert.equal(err.param, 'colour');
    assert.equal(err.code, 'unknown_parameter');
  });
  await check(named('the model of a chat must exist'), async () => {
    const err = await rejects(openai.chat.completions.create({ ...chat, model: 'gpt-4o' }));
    assert(err instanceof NotFoundError);
    assert.equal(err.code, 'model_not_found');
    assert.equal(err.param, 'model');
  });
  await check(named('what cannot be done is refused'), async () => {
    const err = await rejects(openai.chat.completions.create({ ...chat, modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }));
    assert(err instanceof BadRequestError);
    assert.equal(err.code, 'unsupported_parameter');
  });
  await check(named('a stream can be aborted'), async () => {
    const stream = await openai.chat.completions.create({ ...chat, max_tokens: 500, stream: true });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 2) stream.controller.abort();
    assert(chunks < 400);
    const waiting = openai.chat.completions.create({ ...chat, n: 128, max_tokens: 500 }, { signal: AbortSignal.timeout(20) });
    assert(await rejects(waiting) instanceof APIUserAbortError);
  });

  await check(named('a completion is answered'), async () => {
    whole = await openai.completions.create(prompt);
    assert.equal(whole.object, 'text_completion');
    assert.equal(whole.choices[0].logprobs, null);
    assert(whole.choices[0].text.length > 0);
  });
  await check(named('a completion is streamed'), async () => {
    let text = '';
    for await (const chunk of await openai.completions.create({ ...prompt, stream: true })) {
      assert.equal(chunk.object, 'text_completion');
      text += chunk.choices[0].text;
    }
    assert.equal(text, whole.choices[0].text);
  });
  await check(named('prompts as texts, ids and lists'), async () => {
    const ids = (await openai.completions.create({ ...prompt, prompt: [10, 11, 12] })).choices;
    const lists = (await openai.completions.create({ ...prompt, prompt: [[10, 11, 12], [13]], n: 2 })).choices;
    const texts = (await openai.completions.create({ ...prompt, prompt: ['Once upon a time', 'Two'] })).choices;
    assert.equal(ids.length, 1);
    assert.deepEqual(lists.map((c) => c.index), [0, 1, 2, 3]);
    assert.equal(lists[0].text, ids[0].text);
    assert.equal(texts.length, 2);
    assert.equal(texts[0].text, whole.choices[0].text);
  });
  await check(named('an echo has P + 1 log-probabilities'), async () => {
    const request = { ...prompt, prompt: [10, 11, 12, 13], max_tokens: 1, logprobs: 1, echo: true, temperature: 0 };
    const { choices: [{ logprobs }] } = await openai.completions.create(request);
    for (const list of [logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset]) assert.equal(list.length, 5);
    assert.equal(logprobs.token_logprobs[0], null);
    for (const [i, p] of logprobs.token_logprobs.entries()) if (i > 0) assert(p <= Math.max(...Object.values(logprobs.top_logprobs[i])));
  });
}
