/**
 * Access tokens of a hub, for models that require a login: `Authorization: Bearer ...`, sent to one origin only. A hub answers with a redirect to the host that stores the file,
 * which must not receive the token.
 */
import { describe, HeedError, invalid } from '../error.js';
import { type Reader, text } from '../options.js';
import { nodeModule, type SignalLike } from '../platform.js';
import { discard, type Fetcher, request } from './http.js';

/** As browsers follow them. */
const MAX_REDIRECTS = 20;

/** Reads the option `token`. Its value never appears in messages. */
export const hubToken: Reader<string | false> = (value, name) => {
  if (value === false) return false;
  if (typeof value !== 'string') throw invalid(name, 'a string, or false for none', describe(value));
  const token = text(value, name).trim();
  if (/^[!-~]+$/.test(token)) return token;
  throw invalid(name, 'visible ASCII characters without spaces', `a string of ${value.length} characters`);
};

/** The token in the environment variable HF_TOKEN; undefined if there is none. */
export function environmentToken(): string | undefined {
  const value = nodeModule<typeof import('node:process')>('process')?.env.HF_TOKEN?.trim();
  return value ? (hubToken(value, 'the environment variable HF_TOKEN') as string) : undefined;
}

/** `request` with a token for URLs of `origin`. */
function withToken(origin: string, token: string): Fetcher['request'] {
  let redirect: 'manual' | 'follow' = 'manual';
  return async (url, signal: SignalLike | undefined, headers = {}) => {
    let at = url;
    for (let count = 0; count <= MAX_REDIRECTS; count++) {
      if (at.origin !== origin) return request(at, signal, headers);
      const authorized = { ...headers, Authorization: `Bearer ${token}` };
      let response = await request(at, signal, authorized, redirect);
      if (response.type === 'opaqueredirect') {
        // Browsers hide the target of a redirect. They follow it without the header if its origin is another (Fetch standard, HTTP-redirect fetch).
        redirect = 'follow';
        response = await request(at, signal, authorized, redirect);
      }
      const location = response.headers.get('location');
      if (response.status < 300 || response.status >= 400 || location === null) return response;
      await discard(response);
      at = redirectTarget(location, at);
    }
    throw new HeedError('NETWORK', `${url.href}: cannot be fetched (more than ${MAX_REDIRECTS} redirects)`);
  };
}

function redirectTarget(location: string, from: URL): URL {
  try {
    const target = new URL(location, from);
    if (/^https?:$/.test(target.protocol)) return target;
  } catch {} // reported below
  throw new HeedError('NETWORK', `${from.href}: cannot be fetched (a redirect to '${location}')`);
}

/** Fetches with a token for URLs of `origin`, or without one, and tells what a denied access may need. */
export function fetcherOf(origin: string, token: string | null): Fetcher {
  return {
    request: token === null ? request : withToken(origin, token),
    refusal(url, { status, statusText, headers }) {
      if (status !== 401 && status !== 403) return undefined;
      const reason = headers.get('x-error-message')?.slice(0, 300).replace(/\.$/, ''); // as hubs give it
      const got = `${status} ${reason ?? statusText}`;
      return invalid(url.href, 'status 200', got, 'NETWORK', { hint: accessHint(status, token !== null) });
    },
  };
}

function accessHint(status: number, isSent: boolean): string {
  if (!isSent) return 'The host may require a login: give a token as `token`, or in the environment variable HF_TOKEN';
  if (status === 401) return 'The host does not accept the token';
  return "The token's account has no access. A gated model is accessible once its conditions are accepted on its page";
}
