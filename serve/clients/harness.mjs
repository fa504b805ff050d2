// Runs checks with two versions of OpenAI's client against a server, whose URL is the first argument.
import OpenAI6 from 'openai6';
import OpenAI7 from 'openai7';
import * as six from 'openai6';
import * as seven from 'openai7';

const server = process.argv[2];

// clients are the clients by major version, each with the exports of its module.
export const clients = [
  { version: '6', openai: new OpenAI6({ baseURL: `${server}/v1`, apiKey: 'any' }), module: six },
  { version: '7', openai: new OpenAI7({ baseURL: `${server}/v1`, apiKey: 'any' }), module: seven },
];

let passed = 0;

// check runs a function. If the function throws, the other checks still run, and the program exits with status 1.
export async function check(name, f) {
  try {
    await f();
    passed++;
    console.log(`ok ${name}`);
  } catch (err) {
    process.exitCode = 1;
    console.log(`FAILED ${name}: ${err.stack}`);
  }
}

// rejects returns the error with which a promise is rejected.
export async function rejects(promise) {
  try {
    await promise;
  } catch (err) {
    return err;
  }
  throw new Error('the request was not refused');
}

process.on('exit', () => console.log(`${passed} checks passed`));
