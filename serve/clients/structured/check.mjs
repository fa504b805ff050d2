// Asks a server, whose URL is the first argument, for objects with Vercel's AI SDK. It prints a line per check, and exits
// with 1 if one failed. The script run installs the packages and calls it.
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, streamObject } from 'ai';
import { z } from 'zod';

const baseURL = `${process.argv[2]}/v1`;
const compatible = createOpenAICompatible({ name: 'ingot', baseURL, apiKey: 'any' });
const structured = createOpenAICompatible({ name: 'ingot', baseURL, apiKey: 'any', supportsStructuredOutputs: true });
const openai = createOpenAI({ baseURL, apiKey: 'any' });
const schema = z.strictObject({
  name: z.string().max(20).describe('The full name.'),
  age: z.number().int().min(0).max(120),
  mood: z.enum(['happy', 'sad']).nullable(),
  towns: z.array(z.strictObject({ name: z.string().max(20), size: z.enum(['small', 'large']) })).max(2),
});
// The bundled models answer this question with a JSON object, also without a schema.
const prompt = 'Extract the person as JSON: Priya lives in Helsinki and works as a pilot. Priya is 28 years old.';
const question = { prompt, maxOutputTokens: 400, temperature: 0, maxRetries: 0 };

async function check(name, wanted, ask) {
  try {
    wanted.parse(await ask());
    console.log(`ok ${name}`);
  } catch (err) {
    process.exitCode = 1;
    console.log(`FAILED ${name}: ${err.stack}`);
  }
}

const any = z.record(z.string(), z.any());
await check('generateObject without a schema', any, async () => (await generateObject({ ...question, model: compatible('tiny'), output: 'no-schema' })).object);
await check('generateObject, json_object', any, async () => (await generateObject({ ...question, model: compatible('tiny'), schema: any })).object);
await check('generateObject, json_schema', schema, async () => (await generateObject({ ...question, model: structured('tiny'), schema })).object);
await check('streamObject, json_schema', schema, async () => {
  const { partialObjectStream, object } = streamObject({ ...question, model: structured('tiny'), schema });
  let pieces = 0;
  for await (const _ of partialObjectStream) pieces++;
  if (pieces < 2) throw new Error(`the object came in ${pieces} pieces`);
  return object;
});
await check("generateObject, OpenAI's provider", schema, async () => (await generateObject({ ...question, model: openai.chat('tiny'), schema })).object);
