/** A link to a chapter of the course. `of`: the name of its file in docs/course/, without .md. */
export const CourseChapter = ({ of }: { of: string }) => (
  <a href={`https://github.com/heed/heed/blob/main/docs/course/${of}.md`}>
    chapter {Number(of.slice(0, 2))} of the course
  </a>
);
