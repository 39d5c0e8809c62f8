interface Cell<Type> {
  type: Type;
  source: string;
}

export function chapters(): { name: string; text: string }[];
export function cellsOf(text: string): Cell<'text' | 'code'>[];
export function foldedCellsOf(text: string): Cell<'text' | 'code' | 'solution'>[];
export function jupyter(text: string): string;
export function observable(text: string): string;
export function page(options?: { solutions?: boolean }): Promise<string>;
export function slidesOf(text: string): string[];
export function slideDeck(text: string): Promise<string>;
