/** Ratios by place, pair of libraries, and shape. */
type Speed = Record<string, Record<string, Record<string, number>>>;
interface Entry {
  compiler: { emscripten: string; clang: string };
  sizes: Record<string, number>;
  /** Peaks of WebAssembly memory in training, in bytes. */
  memory?: Record<string, number>;
  speed: Speed;
  slower?: string;
}
export function ratiosOf(markdown: string): Speed;
export function slowdowns(before: Entry, after: Entry): string[];
export function slowInt8(speed: Speed): string[];
export function faults(
  record: Record<string, Entry>,
  now: Entry & { version: string },
  options: { exact: boolean },
): string[];
export function changelogFaults(changelog: string, now: { version: string; compiler: Entry['compiler'] }): string[];
export function releaseOf(version: string, known: { tags: string[]; changelog: string }): string | null;
