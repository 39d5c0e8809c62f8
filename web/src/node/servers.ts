/** Options of the functions and commands that use servers. */
import { invalid } from '../base/error.js';

/** Options of servers, with those that they need one of. */
const NEEDED = [
  ['queueTimeout', ['queue', 'to']],
  ['lock', ['queue']],
  ['table', ['to']],
] as const;

type Servers = Partial<Record<'queue' | 'to' | (typeof NEEDED)[number][0], unknown>>;

/**
 * `nameOf`: an option's name for messages.
 * @throws HeedError for an option of a server that is not given
 */
export function requireServers(options: Servers, nameOf: (option: keyof Servers) => string): void {
  for (const [name, servers] of NEEDED)
    if (options[name] !== undefined && servers.every((server) => options[server] === undefined)) {
      const expected = servers.map(nameOf).join(' or ');
      throw invalid(nameOf(name), `${expected}, without which it has no effect`, `${nameOf(name)} alone`);
    }
}
