import { readFileSync } from 'node:fs'

/**
 * Preloaded into a service whose clock a test sets: `Date.now` is shifted by the milliseconds in the file,
 * which is read again at each SIGUSR2.
 */
const file = process.env['CLOCK_OFFSET_FILE'] ?? ''
const realNow = Date.now
let offsetMs = 0

Date.now = () => realNow() + offsetMs

process.on('SIGUSR2', () => {
  offsetMs = Number(readFileSync(file, 'utf8'))
  process.stderr.write('the clock is set\n')
})
