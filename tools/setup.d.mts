export function ensurePackages(name?: string): Promise<void>;
export function ensureDebianPackages(names: string[]): Promise<void>;
