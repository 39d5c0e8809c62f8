/** The options that say where models are downloaded from. Apart from io/, as they are read before anything is downloaded. */
import { describe, invalid } from './error.js';
import { callback, optional, type Reader, readOptions, type Schema, text } from './options.js';
import { type FetchLike, nodeModule } from './platform.js';

/** Where models are downloaded from, how, and where they are kept: set once, for all calls of a runtime. Options of a call have precedence. */
export interface HubOptions {
  /** The host of models that are given by their id ("org/name"); of a call, `remoteHost`. Default: in Node, the environment variable HF_ENDPOINT. */
  host?: string;
  /** A token of `host`, which is sent to that host only. Default: in Node, the environment variable HF_TOKEN. false: none. */
  token?: string | false;
  /** Called in place of the global `fetch` for every file of a model. Models in workers are downloaded by the thread that loads them. */
  fetch?: FetchLike;
  /** Keeps files from the network, as the option `cache` of `fromPretrained`. Default false. */
  cache?: boolean | string;
}

/** @internal The options of a runtime. `base`: the URL that relative URLs are relative to, if not that of this page or worker. */
export interface RuntimeHub extends HubOptions {
  base?: string | undefined;
}

/** Reads the option `token`. Its value never appears in messages. */
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
  host: optional(text, undefined),
  token: optional(hubToken, undefined),
  fetch: callback<FetchLike>,
  cache: cacheOption,
} satisfies Schema<HubOptions>;

/** Reads the option `hub` of `load`. */
export const hubOptions: Reader<HubOptions> = (value, name) => {
  const hub = readOptions(name, schema, value ?? {});
  if (hub.host !== undefined) originOf(hub.host, `${name}.host`);
  else if (hub.token && hubHost(hub) === undefined)
    throw invalid(`${name}.token`, 'a `host` to which the token is sent', 'a token without a host');
  return hub;
};

export function originOf(host: string, name: string): string {
  const url = URL.canParse(host) ? new URL(host) : null;
  if (url && /^https?:$/.test(url.protocol)) return url.origin;
  throw invalid(name, 'the URL of a host, with https:// or http://', describe(host));
}

/** Its type is written out, as declarations must not need the types of Node. */
export const environment = (): Record<string, string | undefined> | undefined =>
  nodeModule<typeof import('node:process')>('process')?.env;

/** The host of models that are given by their ids; undefined if there is none. */
export function hubHost({ host }: HubOptions): string | undefined {
  return host ?? (environment()?.HF_ENDPOINT || undefined);
}
