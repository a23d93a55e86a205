import { spawnSync } from 'node:child_process'

/**
 * Runs this program again with these options of Node, unless it has them, and ends with it: V8 takes them only at
 * its start.
 */
export function runWithOptions(nodeOptions: readonly string[]): void {
  if (nodeOptions.every(option => process.execArgv.includes(option))) return
  const [program = '', ...args] = process.argv
  const { status } = spawnSync(program, [...process.execArgv, ...nodeOptions, ...args], { stdio: 'inherit' })
  process.exit(status ?? 1)
}
