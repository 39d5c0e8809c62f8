/** What the page says about an error; unlike the error itself, it can be sent between threads. */
export interface Failure {
  message: string;
  code?: string;
}

export function asFailure(reason: unknown): Failure {
  const { message, code } = reason as Partial<Failure>;
  return { message: message ?? String(reason), ...(code !== undefined && { code }) };
}
