export const policy: string;
