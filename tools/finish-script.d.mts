export interface Facade {
  script: string;
  exports: [own: string, name?: string][];
}
export function facadeOf(code: string): Facade | null;
export function finished(code: string, facades?: Map<string, Facade>): string;
export function finishFile(path: string, facades?: Map<string, Facade>): void;
