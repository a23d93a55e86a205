import { spawn } from 'node:child_process'
import { reportHealth, showSignsOfLife } from '@tollway/chassis/lifecycle.ts'

/**
 * `node guard.ts PROGRAM ARGUMENTS…` runs a program that does not use Node's IPC channel. When the process at
 * the other end of the channel ends for any reason, it ends the program, even if the program has only just
 * been started. It reports that the program accepts calls as soon as it runs.
 */

const killAfterMs = 2_000

const [program, ...args] = process.argv.slice(2)
if (program === undefined || process.send === undefined) {
  console.error('usage: guard.ts PROGRAM ARGUMENTS…, started with an IPC channel')
  process.exit(2)
}

showSignsOfLife()
const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] })
child.on('spawn', () => reportHealth(true))
child.on('error', error => {
  console.error(error.message)
  process.exit(127)
})
child.on('exit', (code, signal) => {
  if (signal !== null) console.error(`${program} was ended by ${signal}`)
  process.exit(code ?? 1)
})

const end = () => {
  child.kill('SIGTERM')
  setTimeout(() => child.kill('SIGKILL'), killAfterMs)
}
process.on('SIGTERM', end)
process.on('SIGINT', end)
process.on('disconnect', end)
