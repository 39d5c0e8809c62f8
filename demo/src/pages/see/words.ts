/** The words of the first page, in two sentences each. demo/measure.mjs measures what the bundled model makes of them. */
export interface SenseExample {
  word: string;
  meanings: [string, string];
  sentences: [string, string];
}

export const words: readonly SenseExample[] = [
  {
    word: 'light',
    meanings: ['what lamps give', 'not heavy'],
    sentences: ['He switched the light off.', 'This suitcase is very light.'],
  },
  {
    word: 'right',
    meanings: ['the side opposite to left', 'what the law grants'],
    sentences: ['She writes with her right hand.', 'Everyone has the right to vote.'],
  },
  {
    word: 'date',
    meanings: ['a day', 'a fruit'],
    sentences: ['They have not set a date for the election.', 'She ate a date and a fig.'],
  },
  {
    word: 'spring',
    meanings: ['a season', 'a coil of metal'],
    sentences: ['The flowers bloom in spring.', 'The spring of the mattress is broken.'],
  },
  {
    word: 'bank',
    meanings: ['where money is kept', 'the side of a river'],
    sentences: ['The bank lent us the money.', 'They walked along the river bank.'],
  },
];
