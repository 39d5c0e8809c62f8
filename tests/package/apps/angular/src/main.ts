import { Component, provideZonelessChangeDetection } from '@angular/core';
import { bootstrapApplication } from '@angular/platform-browser';
import * as heed from 'heed';
import { report } from '../smoke.js';

@Component({ selector: 'app-root', template: 'heed' })
class App {
  constructor() {
    report(heed, {});
  }
}

bootstrapApplication(App, { providers: [provideZonelessChangeDetection()] });
