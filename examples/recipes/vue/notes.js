export const notes = [
  'The cat sleeps on the sofa all afternoon.',
  'Interest rates rose by half a point.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
  'The train to the coast leaves at half past six.',
];
