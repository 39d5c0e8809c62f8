/** The words of the first page, in three sentences each. demo/measure.mjs measures what the bundled model makes of them. */
export interface SenseExample {
  word: string;
  meanings: [string, string];
  /** The word in each meaning, and once more in one of them, as a control. */
  sentences: [string, string, string];
  /** The meaning of the third sentence. */
  control: 0 | 1;
}

export const words: readonly SenseExample[] = [
  {
    word: 'bank',
    meanings: ['where money is kept', 'the side of a river'],
    sentences: [
      'The bank lent us the money.',
      'They walked along the river bank.',
      'We sat on the grassy bank of the river.',
    ],
    control: 1,
  },
  {
    word: 'star',
    meanings: ['a sun', 'a famous actor'],
    sentences: [
      'The astronomer discovered a new star.',
      'The movie star signed autographs.',
      'The film star won an award.',
    ],
    control: 1,
  },
  {
    word: 'right',
    meanings: ['the side opposite to left', 'what the law grants'],
    sentences: [
      'She writes with her right hand.',
      'Everyone has the right to vote.',
      'Workers have the right to strike.',
    ],
    control: 1,
  },
  {
    word: 'pupil',
    meanings: ['a part of the eye', 'a child at school'],
    sentences: [
      'The pupil of his eye was wide.',
      'The teacher praised the pupil.',
      'Every pupil in the class passed the exam.',
    ],
    control: 1,
  },
  {
    word: 'ring',
    meanings: ['jewelry', 'where boxers fight'],
    sentences: [
      'He gave her a diamond ring.',
      'The boxers stepped into the ring.',
      'She wears a gold ring on her finger.',
    ],
    control: 0,
  },
  {
    word: 'fan',
    meanings: ['a supporter', 'what cools a room'],
    sentences: ['The football fan cheered for his team.', 'The fan cools the room.', 'Turn on the fan when it is hot.'],
    control: 1,
  },
];
