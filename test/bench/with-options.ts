import { spawnSync } from 'node:child_process'

/**
 * Runs this program again with these options of Node, unless it has them, and ends with it: V8 takes them only at
 * its start. Where it may, it then comes before other processes, though not the programs that it starts: a load that
 * waits for its core behind the servers it asks would tell its own wait as theirs.
 */
export function runWithOptions(nodeOptions: readonly string[]): void {
  if (nodeOptions.every(option => process.execArgv.includes(option))) return
  const [program = '', ...args] = process.argv
  const withOptions = [...commandWithPriority(1), program, ...process.execArgv, ...nodeOptions, ...args]
  const [command = '', ...rest] = withOptions
  const { status } = spawnSync(command, rest, { stdio: 'inherit' })
  process.exit(status ?? 1)
}

/**
 * What stands before a command for it to come before ordinary processes, as soon as it is ready; nothing where the
 * kernel does not allow it, which is to anybody but root or who has CAP_SYS_NICE.
 *
 * @param priority 1 to 99, among those who have one
 */
export function commandWithPriority(priority: number): readonly string[] {
  const command = ['chrt', '--reset-on-fork', '--rr', `${priority}`]
  const [chrt = '', ...args] = command
  return spawnSync(chrt, [...args, 'true']).status === 0 ? command : []
}
