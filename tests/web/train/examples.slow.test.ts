/** Runs each example of training in a separate process, like a user, and checks its output. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const examples = fileURLToPath(new URL('../../../examples/', import.meta.url));

async function printed(name: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [`${examples}${name}.mjs`], { maxBuffer: 2 ** 24 });
  return stdout;
}

/** The number in the first group of `pattern`. */
function number(text: string, pattern: RegExp): number {
  const found = text.match(pattern)?.[1];
  expect(found, `${pattern} in\n${text}`).toBeDefined();
  return Number(found);
}

it('train-sequences reverses and sorts', async () => {
  const text = await printed('train-sequences');
  expect(number(text, /^reverse: ([\d.]+) % after/m)).toBeGreaterThanOrEqual(99);
  expect(number(text, /^sort: ([\d.]+) % after/m)).toBeGreaterThanOrEqual(99);
});

it('train-forecast beats every naive forecast', async () => {
  const text = await printed('train-forecast');
  const error = (name: string) => number(text, new RegExp(`^${name} +([\\d.]+) °C$`, 'm'));
  const naive = [
    'temperature of now',
    'same month, a year earlier',
    'mean of the calendar month',
    'anomaly of now persists',
  ].map(error);
  expect(error('transformer encoder')).toBeLessThan(0.95 * Math.min(...naive));
});

it('train-claims finds what a log-linear model cannot', async () => {
  const text = await printed('train-claims');
  const excess = (name: string) => number(text, new RegExp(`^${name} +(-?[\\d.]+)$`, 'm'));
  expect(excess('log-linear model')).toBeLessThan(excess('one rate for all'));
  expect(excess('feature tokens, encoder')).toBeLessThan(0.5 * excess('log-linear model'));
});

it('train-characters predicts a text that it has not read', async () => {
  const text = await printed('train-characters');
  const model = number(text, /has not read: ([\d.]+) bits/);
  expect(model).toBeLessThan(number(text, /frequencies of characters alone: ([\d.]+) bits/) - 0.5);
});

it('train-numbers translates greedily and with beams', async () => {
  const text = await printed('train-numbers');
  expect(number(text, /^greedy: (\d+) of 200/m)).toBeGreaterThanOrEqual(190);
  expect(number(text, /^beams of 3: (\d+) of 50/m)).toBeGreaterThanOrEqual(48);
});
