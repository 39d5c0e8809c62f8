export const policy: string;
export const isolation: Record<string, string>;
