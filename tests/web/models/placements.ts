/** Compares outcomes of calls in this thread and elsewhere. The functions also run in a page. */

/**
 * The outcome of a call as a string that reflects classes, the bits of numbers, the order of keys and, for errors,
 * class, code and message. `classes` collects the prototypes that occur.
 */
export async function outcomeOf(call: () => Promise<unknown>, classes: object[]): Promise<string> {
  const parts: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) {
      parts.push(Object.is(value, -0) ? '-0' : `${typeof value} ${String(value)}`);
      return;
    }
    const prototype = Object.getPrototypeOf(value);
    if (!classes.includes(prototype)) classes.push(prototype);
    parts.push(`class ${classes.indexOf(prototype)}`);
    if (ArrayBuffer.isView(value)) {
      const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
      parts.push(`${bytes.length} bytes`, btoa(String.fromCharCode(...bytes)));
    } else {
      for (const [name, part] of Object.entries(value)) {
        parts.push(name);
        visit(part);
      }
    }
    parts.push('end');
  };
  try {
    visit(await call());
  } catch (error) {
    const { name, message, code } = error as Error & { code?: string };
    parts.push(`throws ${name} ${code}: ${message}`);
    visit(Object.getPrototypeOf(error));
  }
  return parts.join('|');
}
