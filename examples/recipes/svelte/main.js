import { mount } from 'svelte';
import Search from './Search.svelte';

mount(Search, { target: document.getElementById('root') });
