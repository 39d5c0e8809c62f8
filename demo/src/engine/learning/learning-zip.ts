/** The part of fflate that the page uses. */
export { zipSync } from 'fflate';
