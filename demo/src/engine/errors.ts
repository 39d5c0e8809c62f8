/** Errors that cross the worker keep their `code`, which tells the page what to offer. */
import { transferHandlers } from 'comlink';

type Thrown = { value: unknown };

export function carryErrors(): void {
  const original = transferHandlers.get('throw')!;
  transferHandlers.set('throw', {
    canHandle: original.canHandle,
    serialize({ value }: Thrown) {
      const {
        name = 'Error',
        message = String(value),
        code,
      } = (value ?? {}) as { name?: string; message?: string; code?: string };
      return [{ name, message, code }, []];
    },
    deserialize({ name, message, code }: { name: string; message: string; code?: string }) {
      throw Object.assign(new Error(message), { name, code });
    },
  });
}
