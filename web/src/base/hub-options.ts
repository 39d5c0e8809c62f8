/**
 * Options for where and how models are downloaded. Outside io/, because they are read before anything is downloaded.
 */
import { describe, invalid } from './error.js';
import { callback, formerly, optional, type Reader, readOptions, type Schema, text } from './options.js';
import { type FetchLike, nodeModule } from './platform.js';

/**
 * Where and how models are downloaded, and where they are cached: defaults for all calls of a runtime. Options of a
 * call take precedence.
 */
export interface HubOptions {
  /**
   * The host of models that are given by their id ("org/name"). Default: in Node, the environment variable HF_ENDPOINT;
   * otherwise none.
   */
  remoteHost?: string | undefined;
  /** A token for `remoteHost`, sent to that host only. false: none. Default: in Node, the environment variable HF_TOKEN. */
  token?: string | false | undefined;
  /**
   * Called instead of the global `fetch` for every file of a model. Models in workers are then downloaded by the thread
   * that loads them.
   */
  fetch?: FetchLike | undefined;
  /** Whether to cache downloaded files, as the option `cache` of `fromPretrained`. Default false. */
  cache?: boolean | string | undefined;
}

/**
 * The download options of a runtime. `base`: the base of relative URLs, if it is not that of this page or worker.
 */
export interface RuntimeHub extends HubOptions {
  base?: string | undefined;
}

/** Reads the option `token`. Messages never contain its value. */
export const hubToken: Reader<string | false> = (value, name) => {
  if (value === false) return false;
  if (typeof value !== 'string') throw invalid(name, 'a string, or false for none', describe(value));
  const token = text(value, name).trim();
  if (/^[!-~]+$/.test(token)) return token;
  throw invalid(name, 'visible ASCII characters without spaces', `a string of ${value.length} characters`);
};

export const cacheOption = optional<boolean | string, undefined>((value, name) => {
  if (typeof value === 'boolean' || (typeof value === 'string' && value !== '')) return value;
  throw invalid(name, 'true, false or a name', describe(value));
}, undefined);

const schema = {
  ...formerly({ host: 'remoteHost' }),
  remoteHost: optional(text, undefined),
  token: optional(hubToken, undefined),
  fetch: callback<FetchLike>,
  cache: cacheOption,
} satisfies Schema<HubOptions>;

/** Reads the option `hub` of `load`. */
export const hubOptions: Reader<HubOptions> = (value, name) => {
  const hub = readOptions(name, schema, value ?? {});
  if (hub.remoteHost !== undefined) originOf(hub.remoteHost, `${name}.remoteHost`);
  else if (hub.token && hubHost(hub) === undefined)
    throw invalid(`${name}.token`, 'a `remoteHost` to which the token is sent', 'a token without a host');
  return hub;
};

export function originOf(host: string, name: string): string {
  const url = URL.canParse(host) ? new URL(host) : null;
  if (url && /^https?:$/.test(url.protocol)) return url.origin;
  throw invalid(name, 'the URL of a host, with https:// or http://', describe(host));
}

/**
 * Reads an environment variable. Empty ones count as unset, and so do those that Deno's permissions hide, whose access
 * throws.
 */
export function variable(name: string): string | undefined {
  try {
    return nodeModule<typeof import('node:process')>('process')?.env[name]?.trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The host of models that are given by their ids, or undefined. */
export function hubHost({ remoteHost }: HubOptions): string | undefined {
  return remoteHost ?? variable('HF_ENDPOINT');
}
