import { spawnSync } from 'node:child_process'

/**
 * What stands before a command for it to come before ordinary processes, as soon as it is ready; nothing where the
 * kernel does not allow it, which is to anybody but root or who has CAP_SYS_NICE.
 *
 * @param priority 1 to 99, among those who have one
 */
export function commandWithPriority(priority: number): readonly string[] {
  // Those whom it starts have no priority by it.
  const command = ['chrt', '--reset-on-fork', '--rr', `${priority}`]
  const [chrt = '', ...args] = command
  return spawnSync(chrt, [...args, 'true']).status === 0 ? command : []
}
