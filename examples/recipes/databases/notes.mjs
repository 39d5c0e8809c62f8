// What the recipes search, and questions whose words the notes do not contain.
export const notes = [
  'The cat sleeps on the sofa all afternoon.',
  'Interest rates rose by half a point.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
  'The train to the coast leaves at half past six.',
];

export const questions = ['preparing a meal', 'classical music concert', 'a pet taking a nap'];
