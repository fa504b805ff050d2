// A chat with a model that gets a worker after the first request.
import assert from 'node:assert/strict';
import { check, clients } from './harness.mjs';

await Promise.all(clients.map(({ version, openai }) => check(`openai ${version}: a chat waits for a worker`, async () => {
  const chat = await openai.chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 });
  assert.equal(chat.choices.length, 1);
})));
