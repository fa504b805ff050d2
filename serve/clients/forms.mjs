// Answers in a given form: schemas from zod, any JSON object, and vLLM's fields.
import assert from 'node:assert/strict';
import { zodResponseFormat as format6 } from 'openai6/helpers/zod';
import { zodResponseFormat as format7 } from 'openai7/helpers/zod';
import { z } from 'zod';
import { check, clients, rejects } from './harness.mjs';

const Person = z.object({
  name: z.string().max(20).describe('The full name.'),
  age: z.number().int().min(0).max(120),
  mood: z.enum(['happy', 'sad']).nullable(),
  towns: z.array(z.object({ name: z.string().max(20), size: z.enum(['small', 'large']) })).max(2),
});
const chat = { model: 'tiny', messages: [{ role: 'user', content: 'Describe a person.' }], max_tokens: 400, temperature: 1 };
const formats = { 6: format6, 7: format7 };

for (const { version, openai, module } of clients) {
  const named = (name) => `openai ${version}: ${name}`;
  const { BadRequestError } = module;
  const response_format = formats[version](Person, 'person');

  for (const seed of [1, 2, 3]) {
    await check(named(`an answer is parsed, with seed ${seed}`), async () => {
      const { choices: [{ message, finish_reason }] } = await openai.chat.completions.parse({ ...chat, seed, response_format });
      assert.equal(finish_reason, 'stop');
      assert.deepEqual(message.parsed, Person.parse(JSON.parse(message.content)));
    });
  }
  await check(named('a stream has the same answer'), async () => {
    const whole = await openai.chat.completions.parse({ ...chat, seed: 4, response_format });
    const streamed = await openai.chat.completions.stream({ ...chat, seed: 4, response_format }).finalChatCompletion();
    assert.equal(streamed.choices[0].message.content, whole.choices[0].message.content);
    assert.deepEqual(streamed.choices[0].message.parsed, whole.choices[0].message.parsed);
  });
  await check(named('an answer that was cut is an error of the client'), async () => {
    const err = await rejects(openai.chat.completions.parse({ ...chat, max_tokens: 2, response_format }));
    assert.equal(err.constructor.name, 'LengthFinishReasonError');
  });
  await check(named('a schema that cannot be kept is refused, with its path'), async () => {
    const schema = { type: 'object', properties: { a: { type: 'array', items: { type: 'string' }, uniqueItems: true } } };
    for (const stream of [false, true]) {
      const err = await rejects(openai.chat.completions.create({ ...chat, stream, response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema } } }));
      assert(err instanceof BadRequestError);
      assert.equal(err.param, 'response_format.json_schema.schema');
      assert.match(err.message, /\/properties\/a\/uniqueItems/);
    }
  });
  await check(named('a JSON object'), async () => {
    const { choices: [{ message }] } = await openai.chat.completions.create({ ...chat, max_tokens: 8, response_format: { type: 'json_object' } });
    assert.match(message.content, /^\{/);
  });
  await check(named("vLLM's choices"), async () => {
    for (const form of [{ guided_choice: ['yes', 'no'] }, { structured_outputs: { choice: ['yes', 'no'] } }]) {
      const { choices } = await openai.chat.completions.create({ ...chat, n: 4, ...form });
      for (const { message, finish_reason } of choices) assert.deepEqual([['yes', 'no'].includes(message.content), finish_reason], [true, 'stop']);
    }
  });
  await check(named('two forms are refused'), async () => {
    const err = await rejects(openai.chat.completions.create({ ...chat, response_format, guided_regex: 'a' }));
    assert(err instanceof BadRequestError);
    assert.equal(err.param, 'response_format.json_schema.schema');
  });
}
