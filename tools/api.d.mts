export function apiReport(options?: { write?: boolean }): Promise<void>;
export function apiReference(options?: { write?: boolean }): Promise<void>;
export function linkPages(site: string, names: readonly string[]): void;
export function addExamples(site: string, dist: string): void;
export function addFormulaStyle(site: string): void;
export function checkLinks(site: string): void;
