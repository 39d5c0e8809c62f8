import { createApp } from 'vue';
import NoteSearch from './NoteSearch.vue';

createApp(NoteSearch).mount('#root');
