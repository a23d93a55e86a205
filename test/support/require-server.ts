import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { TestContext } from 'node:test'

/** The path of a program of the machine, or undefined when no folder of the PATH has it. */
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
 * Why tests that need the program are to be skipped; false when it is there. For the `skip` option of a
 * suite.
 *
 * @throws Error when it is missing and REQUIRE_SERVERS=1 says that nothing may be skipped.
 */
export function missingProgram(name: string): string | false {
  if (findProgram(name) !== undefined) return false
  const reason = `${name} is not on the PATH`
  if (process.env['REQUIRE_SERVERS'] === '1') throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

/** For one test: the program's path, or false after the test was marked as skipped. */
export function requireProgram(t: Pick<TestContext, 'skip'>, name: string): string | false {
  const missing = missingProgram(name)
  if (missing === false) return findProgram(name) ?? false
  t.skip(missing)
  return false
}
