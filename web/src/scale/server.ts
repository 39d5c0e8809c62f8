/**
 * Shared by connections to queues and databases: parsing URLs, loading optional packages, limits of time, and
 * recognizing refused connections.
 */
import { createRequire } from 'node:module';
import { invalid } from '../node/index.js';

const require = createRequire(import.meta.url);

/**
 * Loads an optional peer dependency.
 * @throws HeedError UNSUPPORTED with the command that installs it, if it is missing
 */
export function requirePeer<T>(option: string, name: string, install: string): T {
  try {
    return require(name) as T;
  } catch (cause) {
    throw invalid(option, `the package ${name}`, `none. Install it: npm install ${install}`, 'UNSUPPORTED', { cause });
  }
}

/**
 * The URL of a server without user, password and query. `expected`: example URLs of the accepted schemes.
 * @throws HeedError INVALID_ARGUMENT for other URLs
 */
export function addressOf(option: string, url: string, expected: readonly string[]): string {
  const address = url.replace(/(?<=:\/\/).*@/, '').replace(/\?.*/s, '');
  const [, scheme = ''] = /^(\w+):\/\/./.exec(url) ?? [];
  const known = expected.some((example) => example.startsWith(`${scheme.replace(/ql$/, '')}:`));
  // ioredis would use database 0 for a path that is not a number.
  const isLegal = known && URL.canParse(url) && (!/^redis/.test(scheme) || /^\/?\d*$/.test(new URL(url).pathname));
  if (!isLegal) throw invalid(option, `a URL like ${expected.join(' or ')}`, `'${address}'`);
  return address;
}

/** SQLSTATE codes for wrong credentials, a missing database and missing privileges. */
const POSTGRES_REFUSALS = /^(28...|3D000|42501)$/;
/** Beginnings of error replies of Redis and of error messages of the packages. */
const REFUSALS =
  /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|Client sent AUTH|invalid (password|DB)|DB index)|Redis version needs|BullMQ: the PostgreSQL (backend|schema) requires|SASL|The server does not support SSL)/;

/** Whether a server refuses the connection for a permanent reason, so that retrying is useless. */
export const isRefusal = ({ code, message }: NodeJS.ErrnoException): boolean =>
  POSTGRES_REFUSALS.test(code ?? '') || REFUSALS.test(message);

export const NO_ANSWER = 'no answer';

/** Settles as `promise` does, or rejects with NO_ANSWER after `ms` milliseconds. */
export async function limited<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(NO_ANSWER)), Math.min(ms, 2 ** 31 - 1));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
