import { readdirSync, readFileSync } from 'node:fs'

/** Returns the child processes of a process, also those that have ended and were not waited for. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && statOf(Number(name))?.parent === pid)
    .map(Number)
}

/** Whether a process runs. A zombie process does not: it uses no resources any more. */
export function isRunning(pid: number): boolean {
  const stat = statOf(pid)
  return stat !== undefined && stat.state !== 'Z'
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
