// The menu of the documentation's site: the groups and titles of docs/README.md.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { root } from '../console.mjs';

const read = (file) => fs.readFileSync(join(root, 'docs', file), 'utf8');

/**
 * The `## ` headings of docs/README.md, and the documents to which each group links, in their order. A document belongs to the first
 * group that names it.
 * @returns {{ title: string, pages: { name: string, title: string }[] }[]} names of files, without `.md`, and the texts of the links
 */
export function groups() {
  const seen = new Set();
  return read('README.md')
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const links = [...section.matchAll(/\[([^\]]*)\]\(([\w/-]+)\.md\)/g)].map(([, title, name]) => ({ name, title }));
      const pages = links.filter(({ name }) => !seen.has(name) && seen.add(name));
      return { title: section.slice(0, section.indexOf('\n')), pages };
    })
    .filter(({ pages }) => pages.length > 0);
}

/** The pages of the course: its index, the chapters with their numbers, and the pages for teachers. */
export function coursePages() {
  const names = [...read('course/README.md').matchAll(/\]\((\d\d-[\w-]+|teaching|tasks)\.md\)/g)].map(
    ([, name]) => name,
  );
  const ofTeachers = (name) => Number(!/^\d/.test(name));
  const ordered = [...new Set(names)].sort((a, b) => ofTeachers(a) - ofTeachers(b));
  const titleOf = (name) => /^# (.*)$/m.exec(read(`course/${name}.md`))[1];
  const rest = ordered.map((name) => ({ name: `course/${name}`, title: titleOf(name) }));
  return [{ name: 'course/README', title: 'Contents and notation' }, ...rest];
}
