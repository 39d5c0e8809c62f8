/** What connections to servers have in common: their addresses, the optional packages that make them, and refusals. */
import { createRequire } from 'node:module';
import { invalid } from '../node/index.js';

const require = createRequire(import.meta.url);

/** Loads an optional peer dependency. @throws HeedError UNSUPPORTED that says what to install */
export function requirePeer<T>(option: string, name: string, install: string): T {
  try {
    return require(name) as T;
  } catch (cause) {
    throw invalid(option, `the package ${name}`, `none. Install it: npm install ${install}`, 'UNSUPPORTED', cause);
  }
}

export interface Server {
  kind: 'redis' | 'postgres';
  /** Without user, password and options. */
  address: string;
}

/** What a URL names. @throws HeedError INVALID_ARGUMENT if it is none of `expected`, a list of examples */
export function serverOf(option: string, url: string, expected: readonly string[]): Server {
  const address = url.replace(/(?<=:\/\/).*@/, '').replace(/\?.*/s, '');
  const [, scheme = ''] = /^(\w+):\/\/./.exec(url) ?? [];
  const known = expected.some((example) => example.startsWith(`${scheme.replace(/ql$/, '')}:`));
  // ioredis would use database 0 for a path that is not a number.
  const isLegal = known && URL.canParse(url) && (!/^redis/.test(scheme) || /^\/?\d*$/.test(new URL(url).pathname));
  if (!isLegal) throw invalid(option, `a URL like ${expected.join(' or ')}`, `'${address}'`);
  return { kind: scheme.startsWith('redis') ? 'redis' : 'postgres', address };
}

/** SQLSTATE: wrong credentials, no such database, no privilege. */
const POSTGRES_REFUSALS = /^(28...|3D000|42501)$/;
/** What replies of Redis begin with, and messages of the packages. */
const REFUSALS =
  /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|Client sent AUTH|invalid (password|DB)|DB index)|Redis version needs|BullMQ: the PostgreSQL (backend|schema) requires|SASL|The server does not support SSL)/;

/** Whether a server refuses a connection for a reason that waiting does not change. */
export const isRefusal = ({ code, message }: NodeJS.ErrnoException): boolean =>
  POSTGRES_REFUSALS.test(code ?? '') || REFUSALS.test(message);
