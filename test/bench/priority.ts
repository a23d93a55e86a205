import { spawnSync } from 'node:child_process'

/**
 * Returns the prefix of a command that gives it real-time priority; empty if the kernel does not allow it,
 * which requires root or CAP_SYS_NICE.
 *
 * @param priority 1 to 99, among real-time processes
 */
export function commandWithPriority(priority: number): readonly string[] {
  // Its child processes do not inherit the priority.
  const command = ['chrt', '--reset-on-fork', '--rr', `${priority}`]
  const [chrt = '', ...args] = command
  return spawnSync(chrt, [...args, 'true']).status === 0 ? command : []
}
