/** Addresses of earlier versions of the page lead to today's places. */
import { expect, it } from 'vitest';
import { redirected } from '../../demo/src/state/redirects';

it.each([
  ['#start', '#see'],
  ['#hand', '#compute'],
  ['#hand?tour=3&theme=dark', '#compute?tour=3&theme=dark'],
  ['#text?define=a+place', '#meaning?define=a+place'],
  ['#text?layer=1&head=2', '#inside?head=2.3'],
  ['#inside?layer=1&head=2&view=map', '#inside?head=2.3&view=map'],
  ['#inside?layer=1', '#inside?head=2.8'],
  ['#inside?head=0', '#inside?head=6.1'],
  ['#learn?layer=0', '#learn?head=1.1'],
  ['#learning?head=1&step=30', '#learn?head=2.2&step=30'],
  ['#model?url=https%3A%2F%2Fexample.org%2F', '#meaning?url=https%3A%2F%2Fexample.org%2F&model=own'],
  ['#learning?step=30', '#learn?step=30'],
  ['#learning?part=labels&sample=topics', '#teach?from=labels&sample=topics'],
  ['#lens?text=A.&other=B.', '#inside?first=A.&second=B.&part=lens'],
])('%s', (from, to) => {
  expect(redirected(from)).toBe(to);
});

it.each([
  '',
  '#see',
  '#compute?all=1',
  '#learn',
  '#teach',
  '#meaning',
  '#inside',
  '#inside?head=2.3',
  '#learn?head=1.1&step=3',
  '#see?layer=2',
  '#speed',
  '#unknown',
])('%s stays', (hash) => {
  expect(redirected(hash)).toBeUndefined();
});
