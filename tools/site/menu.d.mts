export interface MenuPage {
  name: string;
  title: string;
}
export function groups(): { title: string; pages: MenuPage[] }[];
export function coursePages(): MenuPage[];
