import { spawn } from 'node:child_process'
try { await fetch('x') } catch {}
spawn('ls')
