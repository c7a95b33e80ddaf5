import './app.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { apply } from './lib/theme.svelte';

apply();
const target = document.getElementById('app');
if (target) mount(App, { target });
