import { relative } from 'node:path'
import { after } from 'node:test'
import './end-with-file.ts'
import { isTestFile } from './test-file.ts'

/**
 * Ends a test file that is still alive 30 s after its last test, and reports what keeps its event loop alive.
 * The file then counts as failed. `make test` loads this module into each file with `--import`.
 */
const graceMs = Number(process.env['HUNG_FILE_MS'] ?? 30_000)

/** The fields by which Node's open handles differ: servers, sockets and child processes. */
interface Handle {
  readonly pid?: number
  readonly spawnargs?: readonly string[]
  readonly address?: () => object | string | null
  readonly remotePort?: number
}

if (isTestFile) after(() => setTimeout(endFile, graceMs).unref())

function endFile(): void {
  const handles = openHandles()
  const file = relative(process.cwd(), process.argv[1] ?? '')
  const resources = process.getActiveResourcesInfo().join(', ')
  process.stderr.write(
    `end ${file}: it is alive ${graceMs / 1000} s after its last test, since a test left open: ` +
      `${handles.map(describeHandle).join('; ')} (${resources})\n`,
  )
  for (const { pid } of handles) if (pid !== undefined) kill(pid)
  process.exit(1)
}

function openHandles(): readonly Handle[] {
  // Only this function without documentation returns them.
  const handles = (process as unknown as { _getActiveHandles(): Handle[] })._getActiveHandles()
  const own: unknown[] = [process.stdout, process.stderr]
  return handles.filter(handle => !own.includes(handle))
}

function describeHandle(handle: Handle): string {
  if (handle.spawnargs !== undefined) return `program ${handle.spawnargs.slice(0, 2).join(' ')}`
  const { name } = handle.constructor
  if (handle.remotePort !== undefined) return `${name} to port ${handle.remotePort}`
  return `${name} ${JSON.stringify(handle.address?.() ?? '')}`
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
