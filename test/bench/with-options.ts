import { spawnSync } from 'node:child_process'

/**
 * Restarts this program with these options of Node, unless it has them, and exits with it: V8 accepts them
 * only at its start.
 */
export function runWithOptions(nodeOptions: readonly string[]): void {
  if (nodeOptions.every(option => process.execArgv.includes(option))) return
  const [program = '', ...args] = process.argv
  const { status } = spawnSync(program, [...process.execArgv, ...nodeOptions, ...args], { stdio: 'inherit' })
  process.exit(status ?? 1)
}
