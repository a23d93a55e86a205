import { takeCoverage } from 'node:v8'

/**
 * Preloaded into a process whose NODE_V8_COVERAGE names a folder: SIGUSR2 writes what ran since the last
 * signal.
 */
process.on('SIGUSR2', () => {
  takeCoverage()
  process.stdout.write('coverage taken\n')
})
