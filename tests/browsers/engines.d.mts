/** A browser with one window. */
export interface Engine {
  /** Loads a page; resolves after its load event. */
  goto(url: string): Promise<unknown>;
  /** Calls `script` in the page and returns what its promise resolves to. Both values pass through JSON. */
  evaluate<Given, Result>(script: (given: Given) => Promise<Result>, given: Given): Promise<Result>;
  /** Presses and releases a key, given by its name in `KeyboardEvent.key`. */
  press(key: string): Promise<unknown>;
  resize(width: number, height: number): Promise<unknown>;
  /** Writes a PNG file of what the window shows. */
  screenshot(file: string): Promise<void>;
  close(): Promise<void>;
}

export const engines: Record<'Firefox' | 'WebKit', () => Promise<Engine>>;

export function firefoxPath(): string | undefined;
