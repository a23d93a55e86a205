import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { findProgram } from './require-server.ts'
import { root } from './tollway.ts'

/** A test program in Go, which not every machine can build. */
export interface GoProgram {
  readonly name: string
  /** The folder of its module, below the root. */
  readonly folder: string
}

const howToBuild = ({ name, folder }: GoProgram) =>
  `cd ${folder} && go build -o ${join(root, 'out/bin', name)} .`

function findGoProgram({ name }: GoProgram): string | undefined {
  const built = join(root, 'out/bin', name)
  try {
    accessSync(built, constants.X_OK)
    return built
  } catch {
    return findProgram(name)
  }
}

/**
 * Returns the reason to skip tests that need the program; false when it is available.
 *
 * @throws Error when it is missing, the machine has Go, and REQUIRE_SERVERS=1 forbids skipping
 */
export function missingGoProgram(program: GoProgram): string | false {
  if (findGoProgram(program) !== undefined) return false
  const reason = `${program.name} is not built (${howToBuild(program)})`
  if (process.env['REQUIRE_SERVERS'] === '1' && findProgram('go') !== undefined) {
    throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
  }
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

/** @throws Error that explains how to build the program */
export function goProgramPath(program: GoProgram): string {
  const path = findGoProgram(program)
  if (path === undefined) throw new Error(`${program.name} is not built: ${howToBuild(program)}`)
  return path
}
