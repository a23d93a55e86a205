import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { TestContext } from 'node:test'

/** Returns the path of a program, or undefined when no folder of the PATH has it. */
export function findProgram(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.map(folder => join(folder, name)).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * Returns the reason to skip tests that need the program; false when it is available. For the `skip` option
 * of a suite.
 *
 * @throws Error when it is missing and REQUIRE_SERVERS=1 forbids skipping
 */
export function missingProgram(name: string): string | false {
  if (findProgram(name) !== undefined) return false
  const reason = `${name} is not on the PATH`
  if (process.env['REQUIRE_SERVERS'] === '1') throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

/** Returns the program's path for one test, or false after the test was marked as skipped. */
export function requireProgram(t: Pick<TestContext, 'skip'>, name: string): string | false {
  const missing = missingProgram(name)
  if (missing === false) return findProgram(name) ?? false
  t.skip(missing)
  return false
}
