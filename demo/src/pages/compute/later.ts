/** Parts of “Compute” that are downloaded when they are shown, or in the background. */
export const loadCarried = () => import('./carried');
export const loadPositions = () => import('./positions');
export const loadTour = () => import('./tour');
