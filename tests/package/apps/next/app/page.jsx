'use client';
import * as heed from 'heed';
import { useEffect, useState } from 'react';
import { report } from '../smoke.js';

export default function Page() {
  const [text, setText] = useState('…');
  useEffect(() => {
    report(heed).then((result) => setText(JSON.stringify(result)));
  }, []);
  return <pre>{text}</pre>;
}
