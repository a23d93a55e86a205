import { readFileSync } from 'node:fs'

/** The resident memory of a process, in MiB. */
export function residentMiB(pid: number): number {
  const [, kibibytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) / 1024
}
