// API reference at /docs: renders this server's own /openapi.json in the client's style, and loads nothing
// from other hosts (docs/adr/0008-offline-api-reference.md).
import '@fontsource-variable/inter/wght.css';
import '@fontsource-variable/jetbrains-mono/wght.css';
import '../styles/global.css';
import { mount } from 'svelte';
import { installCopy } from '../lib/enhance';
import Reference from './Reference.svelte';

installCopy();
mount(Reference, { target: document.getElementById('app')! });
