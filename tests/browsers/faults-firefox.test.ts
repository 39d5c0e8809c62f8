/** The faults that the page once had, in Firefox. */
import { testFaults } from '../demo/faults';
import { engines } from './engines.mjs';

testFaults('Firefox', engines.Firefox);
