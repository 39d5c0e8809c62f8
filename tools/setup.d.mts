export function ensurePackages(name?: string): Promise<void>;
