/**
 * The hub: the host of models that are specified by id, its access tokens, and fetching of files. A token is sent as
 * `Authorization: Bearer ...` for files below the model's folder only. It is also sent to redirects on the same origin,
 * which hubs use for renamed models, but not to other origins: hubs redirect to storage hosts, which must not receive
 * it.
 */
import { HeedError } from '../base/error.js';
import { type HubOptions, hubHost, hubToken, originOf, variable } from '../base/hub-options.js';
import type { FetchLike, SignalLike } from '../base/platform.js';
import type { Request } from './files.js';
import { discard, type Fetcher, requestBy } from './http.js';
import { isBelow } from './paths.js';

/** Matches "org/name", but not relative URLs such as './model' and '../model'. */
export const HUB_ID = /^(?!\.\.?\/)[\w.-]+\/(?!\.\.?$)[\w.-]+$/;

/** The limit of browsers. */
const MAX_REDIRECTS = 20;

/** The token for files of `origin`, or null. `isHub`: whether the model is specified by its id. */
export function tokenFor(origin: string, isHub: boolean, hub: HubOptions): string | null {
  if (hub.token !== undefined) {
    const host = hubHost(hub);
    return host !== undefined && originOf(host, 'hub.remoteHost') === origin ? hub.token || null : null;
  }
  const value = isHub && variable('HF_TOKEN');
  return value ? hubToken(value, 'the environment variable HF_TOKEN') || null : null;
}

/** Wraps `request` to send a token for URLs below `root`, and to redirects on its origin. */
function withToken(root: URL, token: string, request: ReturnType<typeof requestBy>): Request {
  let redirect: 'manual' | 'follow' = 'manual';
  return async (url, signal: SignalLike | undefined, headers = {}, cache) => {
    if (!isBelow(url, root)) return request(url, signal, headers, cache);
    let at = url;
    for (let count = 0; count <= MAX_REDIRECTS; count++) {
      if (at.origin !== root.origin) return request(at, signal, headers, cache);
      const authorized = { ...headers, Authorization: `Bearer ${token}` };
      let response = await request(at, signal, authorized, cache, redirect);
      if (response.type === 'opaqueredirect') {
        // Browsers hide the target of a redirect. If its origin differs, they follow it without the header (Fetch
        // standard, HTTP-redirect fetch).
        redirect = 'follow';
        response = await request(at, signal, authorized, cache, redirect);
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

/**
 * @internal Returns a fetcher that sends `token`, if given, for URLs below `root`, and whose `refusal` advises on denied
 *   requests. `revision`: revision of a model that is specified by its id. `hint`: advice for a missing required file.
 */
export function fetcherOf(
  root: URL | null,
  token: string | null,
  fetch: FetchLike | undefined,
  revision?: string,
  hint?: string,
): Fetcher {
  const request = requestBy(fetch);
  return {
    hint,
    request: token === null || root === null ? request : withToken(root, token, request),
    refusal({ status, statusText, headers }) {
      const isMissing = status === 404 || status === 410;
      const said = headers.get('x-error-message')?.slice(0, 300).replace(/\.$/, ''); // as hubs give it
      const reason = token === null ? said : said?.replaceAll(token, '***');
      const checkId = revision && `Check the model's id, and whether it has this file at revision '${revision}'`;
      if (isMissing) return { got: `status ${status}`, hint: hint ?? checkId };
      return { got: `${status} ${reason ?? statusText}`.trim(), hint: hintOf(status, headers, token !== null) };
    },
  };
}

function hintOf(status: number, headers: Headers, hasToken: boolean): string | undefined {
  if ((status === 401 || status === 403) && !hasToken)
    return 'The host may require a login: give a token as `token`, or in the environment variable HF_TOKEN';
  if (status === 401) return 'The host does not accept the token';
  if (status === 403)
    return "The token's account has no access. A gated model is accessible once its conditions are accepted on its page";
  if (status === 429) {
    const seconds = secondsOf(headers.get('retry-after'));
    const when = seconds === null ? 'later' : `in ${seconds} s`;
    return `The host limits how much is requested: try again ${when}${hasToken ? '' : ', or with a token, which may have a higher limit'}`;
  }
  return status >= 500 ? 'The host has failed: try again later' : undefined;
}

/** Seconds until the time in a Retry-After header, which contains seconds or a date; null if it is invalid. */
function secondsOf(header: string | null): number | null {
  const seconds = /^\d+$/.test(header ?? '') ? Number(header) : (Date.parse(header ?? '') - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : null;
}
