// Tool calls: with zod, in streams, and run by the clients.
import assert from 'node:assert/strict';
import { zodFunction as function6 } from 'openai6/helpers/zod';
import { zodFunction as function7 } from 'openai7/helpers/zod';
import { z } from 'zod';
import { check, clients, rejects } from './harness.mjs';

const Weather = z.object({
  city: z.string().max(12).describe('such as Turku'),
  days: z.number().int().min(1).max(9),
  unit: z.enum(['C', 'F']).nullable(),
  hours: z.array(z.object({ from: z.number().int().min(0).max(23), rain: z.boolean() })).max(2),
});
const Note = z.object({ text: z.string().max(12) });
const chat = { model: 'tiny', messages: [{ role: 'user', content: 'How is the weather in Turku?' }], max_tokens: 400, temperature: 1, seed: 3 };
const functions = { 6: function6, 7: function7 };

for (const { version, openai, module } of clients) {
  const named = (name) => `openai ${version}: ${name}`;
  const { BadRequestError } = module;
  const completions = openai.chat.completions;
  const make = functions[version];
  const weather = make({ name: 'get_weather', description: 'The weather of a city', parameters: Weather });
  const note = make({ name: 'save_note', parameters: Note });
  const tools = [weather, note];
  const only = { type: 'function', function: { name: 'get_weather' } };
  const parsed = (calls) => calls.map((c) => {
    const schema = { get_weather: Weather, save_note: Note }[c.function.name];
    assert.deepEqual(c.function.parsed_arguments, schema.parse(JSON.parse(c.function.arguments)));
    return c.function.parsed_arguments;
  });

  for (const seed of [1, 2, 3]) {
    await check(named(`required calls are parsed, with seed ${seed}`), async () => {
      const { choices: [{ message, finish_reason }] } = await completions.parse({ ...chat, seed, tools, tool_choice: 'required', parallel_tool_calls: false });
      assert.equal(finish_reason, 'tool_calls');
      assert.equal(message.content, null);
      assert.equal(message.tool_calls.length, 1);
      assert.equal(message.tool_calls[0].type, 'function');
      parsed(message.tool_calls);
    });
  }
  await check(named('a named function is called once'), async () => {
    const { choices: [{ message, finish_reason }] } = await completions.parse({ ...chat, tools, tool_choice: only });
    assert.equal(finish_reason, 'stop');
    assert.deepEqual(message.tool_calls.map((c) => c.function.name), ['get_weather']);
    parsed(message.tool_calls);
  });
  await check(named('a stream has the same calls'), async () => {
    const request = { ...chat, n: 2, tools, tool_choice: 'required', parallel_tool_calls: false };
    const whole = await completions.parse(request);
    let parts = 0;
    const stream = completions.stream(request).on('tool_calls.function.arguments.delta', () => parts++);
    const streamed = await stream.finalChatCompletion();
    for (const i of [0, 1]) {
      const [a] = whole.choices[i].message.tool_calls;
      const [b] = streamed.choices[i].message.tool_calls;
      assert.equal(a.id, b.id);
      assert.equal(a.function.name, b.function.name);
      assert.equal(a.function.arguments, b.function.arguments);
      assert.deepEqual(b.function.parsed_arguments, a.function.parsed_arguments);
      assert.equal(streamed.choices[i].finish_reason, 'tool_calls');
      assert.equal(streamed.choices[i].message.content, null);
    }
    assert.notEqual(whole.choices[0].message.tool_calls[0].id, whole.choices[1].message.tool_calls[0].id);
    assert(parts >= 2, `the arguments came in ${parts} parts`);
  });
  await check(named('runTools runs a named function'), async () => {
    const ran = [];
    const run = make({ name: 'get_weather', parameters: Weather, function: (args) => { ran.push(args); return '12 °C'; } });
    await completions.runTools({ ...chat, tools: [run, make({ name: 'save_note', parameters: Note, function: () => 'saved' })], tool_choice: only }).done();
    assert.equal(ran.length, 1);
    Weather.parse(ran[0]);
  });
  await check(named('runTools sends results back'), async () => {
    const ran = [];
    const run = make({ name: 'save_note', parameters: Note, function: (args) => { ran.push(args); return 'saved'; } });
    const runner = completions.runTools({ ...chat, tools: [run], tool_choice: 'required', parallel_tool_calls: false }, { maxChatCompletions: 3 });
    await runner.done();
    assert.equal(ran.length, 3);
    assert.deepEqual(runner.messages.map((m) => m.role), ['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant', 'tool']);
    const ids = runner.messages.flatMap((m) => (m.tool_calls ?? []).map((c) => c.id));
    assert.equal(new Set(ids).size, 3, 'the calls of a chat have different ids');
    for (const args of ran) Note.parse(args);
  });
  await check(named('tools that are hidden are not called'), async () => {
    const { choices: [{ message }] } = await completions.create({ ...chat, max_tokens: 8, tools, tool_choice: 'none' });
    assert.equal(message.tool_calls, undefined);
    assert(message.content.length > 0);
  });
  await check(named('tools may be called or not'), async () => {
    const { choices: [{ message }] } = await completions.parse({ ...chat, max_tokens: 30, tools });
    assert(message.content?.length > 0 || message.tool_calls.length > 0);
  });
  await check(named('wrong tools are refused, with their field'), async () => {
    const wrong = [
      [{ tools: [{ type: 'function', function: { name: 'a b' } }] }, 'tools[0].function.name'],
      [{ tools: [weather, weather] }, 'tools[1].function.name'],
      [{ tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'string' } } }] }, 'tools[0].function.parameters.type'],
      [{ tools: [note], tool_choice: only }, 'tool_choice'],
      [{ tool_choice: 'required' }, 'tool_choice'],
      [{ tools: [{ type: 'function', function: { name: 'f', strict: true, parameters: { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } } } }] },
        'tools[0].function.parameters'],
    ];
    for (const [fields, param] of wrong) {
      for (const stream of [false, true]) {
        const err = await rejects(completions.create({ ...chat, ...fields, stream }));
        assert(err instanceof BadRequestError, `${err}`);
        assert.equal(err.param, param, err.message);
      }
    }
  });
}
