/**
 * Decides what the path of a file in a model's folder is. Such paths come from files that are untrusted: modules.json,
 * external data of ONNX files, lists of shards. All sources, listings and written folders use these functions, so that
 * no path leads out of its folder, whether it is read as a URL or by a file system.
 */
import { describe, invalidFile } from '../base/error.js';

/** Characters that URLs, Windows or terminals treat specially: separators, and those that URLs leave out. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are the ones to reject
const SPECIAL = /[\\\u0000-\u001F\u007F\p{Surrogate}]/u;
/**
 * A folder above, or no name, also if the rest of the path were read as the query or the hash of a URL. Windows ignores
 * dots and spaces at the end of a name.
 */
const NO_NAME = /^[. ]*([?#]|$)/;
const DRIVE = /^[a-z]:/i;
const ESCAPE = /%([\da-f]{2})/gi;

/** The longest path of Linux. */
const MAX_LENGTH = 4096;

/**
 * Whether `path` names a file or folder below the folder: names separated by single slashes. Servers and proxies may
 * decode percent escapes, even more than once, so a path is also rejected if it leads out of the folder after decoding.
 */
export function isInside(path: string): boolean {
  if (path.length > MAX_LENGTH) return false;
  for (let each = path; ; ) {
    if (SPECIAL.test(each) || DRIVE.test(each) || each.split('/').some((name) => NO_NAME.test(name))) return false;
    const decoded = each.replace(ESCAPE, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
    if (decoded === each) return true;
    each = decoded;
  }
}

/** @throws HeedError INVALID_FILE if `path` is not inside the folder */
export function requireInside(path: string): string {
  if (isInside(path)) return path;
  const expected = 'names separated by slashes, none of them . or ..';
  throw invalidFile('a path of a file in the folder', expected, describe(path));
}

/** The part of a URL for a path. A percent sign in a name is not an escape. */
const escaped = (path: string) => path.replace(/[%?#]/g, encodeURIComponent);

/** The path as it appears at the end of the URL of a file. */
export function urlPath(path: string): string {
  return new URL(`./${escaped(path)}`, 'http://localhost/').pathname.slice(1);
}

/** The URL of a file. `folder`: the folder's URL, which ends with a slash before its query. */
export function urlInside(folder: URL, path: string): URL {
  const url = new URL(`./${escaped(requireInside(path))}${folder.search}`, folder);
  if (isBelow(url, folder)) return url;
  throw invalidFile('a path of a file in the folder', `one below ${folder.href}`, describe(path));
}

/** Whether a URL is that of the folder or file `root`, or below it. */
export function isBelow(url: URL, root: URL): boolean {
  return url.origin === root.origin && url.protocol === root.protocol && url.pathname.startsWith(root.pathname);
}
