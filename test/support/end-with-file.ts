import type { ChildProcess } from 'node:child_process'
import { after } from 'node:test'
import { isTestFile } from './test-file.ts'

const ends = new Set<() => void>()
const graceMs = 2_000

// Cleanup functions of the file run first. Import this module statically: within a test, `after` would
// register the function for that test.
if (isTestFile) after(() => setTimeout(endAll, graceMs).unref())
process.once('exit', endAll)

/**
 * Kills a program that a failed or aborted test leaves running, 2 s after the last test of the file or when
 * its process exits. Otherwise the program would keep the file alive.
 *
 * @param end kills the program; by default a signal to its process
 */
export function endWithFile(child: ChildProcess, end: () => void = () => child.kill('SIGKILL')): void {
  ends.add(end)
  child.once('exit', () => ends.delete(end))
}

function endAll(): void {
  for (const end of ends) {
    try {
      end()
    } catch {
      // The program has ended.
    }
  }
}
