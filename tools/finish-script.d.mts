export interface Script {
  code: string;
  /** Its source map, version 3. */
  map?: { mappings: string; [key: string]: unknown };
}
export interface Facade {
  script: string;
  exports: [own: string, name?: string][];
}
export function facadeOf(code: string): Facade | null;
export function finished(script: Script, facades?: Map<string, Facade>): Script;
export function finishFile(path: string, facades?: Map<string, Facade>): void;
export function appendTo(path: string, more: string): void;
