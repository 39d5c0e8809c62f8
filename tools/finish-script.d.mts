export interface Script {
  code: string;
  /** Its source map, version 3. */
  map?: { mappings: string; [key: string]: unknown };
}
export function finished(script: Script): Script;
export function finishFile(path: string, more?: string): void;
