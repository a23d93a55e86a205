import { readdirSync, readFileSync } from 'node:fs'

/** Returns the child processes of a process, also those that have ended and were not waited for. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && statOf(Number(name))?.parent === pid)
    .map(Number)
}

/** Whether a process runs. A zombie does not: it has ended, and waits until its parent reads its status. */
export function isRunning(pid: number): boolean {
  if (process.platform === 'linux') return (statOf(pid)?.state ?? 'Z') !== 'Z'
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function statOf(pid: number): { readonly state: string; readonly parent: number } | undefined {
  try {
    const [state = '', parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return { state, parent: Number(parent) }
  } catch {
    return undefined
  }
}
